use std::{collections::HashSet, sync::Mutex};

use super::*;

#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Span>>);

impl Recorder for Kept {
    fn record(&self, span: Span) {
        self.0.lock().unwrap().push(span);
    }
}

fn calls(kept: &Arc<Kept>, number: usize) -> Vec<Calls> {
    let call = |_| Calls::from([CallSpan::new(None, kept.clone())]);
    (0..number).map(call).collect()
}

#[test]
fn calls_are_current_until_the_guard_is_dropped() {
    let kept = Arc::new(Kept::default());
    let [outer, inner] = [0, 1].map(|_| calls(&kept, 1).remove(0));
    assert!(current().is_none());
    let entered = enter(Some(outer.clone()));
    {
        let _entered = enter(Some(inner.clone()));
        assert_eq!(trace_id(), Some(inner[0].context.trace));
    }
    assert_eq!(trace_id(), Some(outer[0].context.trace));
    drop(entered);
    assert!(current().is_none());
}

#[test]
fn a_batch_has_one_child_for_each_sampled_call_and_bounded_links() {
    let kept = Arc::new(Kept::default());
    let calls = calls(&kept, 12);
    // Three items of each call, and one item of a call that is not sampled.
    let items = calls.iter().flat_map(|call| [Some(call); 3]).chain([None]).collect::<Vec<_>>();
    let spans = BatchSpans::start(items.into_iter()).unwrap();
    spans.end("batch", |size| vec![("size", SpanValue::Number(size as i64))], None);
    let kept = kept.0.lock().unwrap();
    assert_eq!(kept.len(), 12);
    let own: HashSet<u64> = kept.iter().map(|span| span.context.span).collect();
    assert_eq!(own.len(), 12);
    for span in kept.iter() {
        let call = calls.iter().find(|call| call[0].context.trace == span.context.trace).unwrap();
        assert_eq!(span.parent.unwrap().span, call[0].context.span);
        assert_eq!(span.attributes, [("size", SpanValue::Number(37))]);
        assert_eq!((span.links.len(), span.links_left_out), (LINKS_MAX, 3));
        assert!(span.links.iter().all(|link| link.trace != span.context.trace));
    }
}

#[test]
fn items_that_were_combined_share_their_spans() {
    let kept = Arc::new(Kept::default());
    let combined: Calls = (0..500).map(|_| CallSpan::new(None, kept.clone())).collect();
    let spans = BatchSpans::start([Some(&combined); 500].into_iter()).unwrap();
    assert_eq!((spans.calls.len(), spans.calls.capacity() < 1_000), (500, true));
}

#[test]
fn a_batch_without_sampled_calls_has_no_spans() {
    assert!(BatchSpans::start([None, None].into_iter()).is_none());
}

#[test]
fn the_ratio_decides_on_calls_without_a_parent() {
    let drawn = |ratio: f64| (0..10_000).filter(|_| is_drawn(ratio)).count();
    assert_eq!(drawn(0.0), 0);
    assert_eq!(drawn(1.0), 10_000);
    let half = drawn(0.5);
    assert!((4_500..5_500).contains(&half), "{half}");
}
