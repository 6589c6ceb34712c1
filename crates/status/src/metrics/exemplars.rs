//! Exemplars of histograms in the text of the page.
//!
//! `prometheus-client` (0.25) writes only exemplars of its own histograms, because exemplars cannot
//! be constructed outside of it. So this module appends ours to the text, as ` # {trace_id="…"}
//! SECONDS TIME` after the first bucket that contains the call.

use std::fmt::Write;

use tollgate_telemetry::metrics::{Exemplar, RpcLabels};

/// Adds the exemplars to the buckets of a histogram with the labels of RPCs.
pub(super) fn add(text: &str, metric: &str, exemplars: &[(RpcLabels, Exemplar)]) -> String {
    let mut left: Vec<&(RpcLabels, Exemplar)> = exemplars.iter().collect();
    let mut all = String::with_capacity(text.len() + 128 * left.len());
    for line in text.lines() {
        all.push_str(line);
        let bucket = line.strip_prefix(metric).and_then(|rest| rest.strip_prefix("_bucket"));
        if let Some(bucket) = bucket
            && let Some(index) = left.iter().position(|(rpc, call)| contains(bucket, rpc, call))
        {
            let (_, Exemplar { trace, end, seconds }) = left.swap_remove(index);
            let time = *end as f64 / 1e6;
            // Writing to a String cannot fail.
            let _ = write!(all, " # {{trace_id=\"{trace}\"}} {seconds} {time:.3}");
        }
        all.push('\n');
    }
    all
}

/// Whether a bucket has the labels of an RPC and a bound that is not below the call.
fn contains(bucket: &str, rpc: &RpcLabels, call: &Exemplar) -> bool {
    let has = |name: &str, value: &str| label(bucket, name) == Some(value);
    let bound = label(bucket, "le").and_then(|bound| match bound {
        "+Inf" => Some(f64::INFINITY),
        bound => bound.parse().ok(),
    });
    has("grpc_service", rpc.service)
        && has("grpc_method", rpc.method)
        && bound.is_some_and(|bound: f64| call.seconds <= bound)
}

/// Returns the value of a label, which must not contain escapes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels
        .split(['{', ','])
        .find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_telemetry::spans::TraceId;

    #[test]
    fn an_exemplar_stands_behind_the_first_bucket_that_contains_it() {
        let text = "\
            h_bucket{le=\"0.1\",grpc_service=\"s\",grpc_method=\"other\"} 1\n\
            h_bucket{le=\"0.1\",grpc_service=\"s\",grpc_method=\"m\"} 1\n\
            h_bucket{le=\"0.2\",grpc_service=\"s\",grpc_method=\"m\"} 2\n\
            h_bucket{le=\"+Inf\",grpc_service=\"s\",grpc_method=\"m\"} 2\n\
            # EOF\n";
        let rpc = RpcLabels { path: "", service: "s", method: "m", kind: "unary" };
        let with = |seconds: f64| {
            let (trace, end) = (TraceId(255), 1_500_000);
            let all = add(text, "h", &[(rpc, Exemplar { trace, end, seconds })]);
            let added: Vec<usize> =
                (0..5).filter(|line| all.lines().nth(*line) != text.lines().nth(*line)).collect();
            (added, all)
        };
        assert_eq!((with(0.1).0, with(0.15).0, with(9.0).0), (vec![1], vec![2], vec![3]));
        let line = with(0.15).1.lines().nth(2).unwrap().to_owned();
        let trace = format!("{:032x}", 255);
        assert!(line.ends_with(&format!("2 # {{trace_id=\"{trace}\"}} 0.15 1.500")), "{line}");
    }
}
