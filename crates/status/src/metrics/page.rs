//! The metrics page as OpenMetrics text.

use std::{borrow::Cow, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use super::table::{Metric, MetricKind};
use tollgate_telemetry::metrics::Histogram;

/// The content type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SeriesValue {
    /// The value of a counter.
    Count(u64),
    /// The value of a gauge.
    Gauge(f64),
    /// The value of a histogram.
    Histogram(Histogram),
    /// The value of an info metric, which is always 1.
    Info,
}

/// The values of labels, in the order of the table.
pub(super) type Labels = Vec<Cow<'static, str>>;

/// A metric with its series.
#[derive(Debug)]
struct Family {
    metric: Metric,
    series: Vec<(Labels, SeriesValue)>,
}

/// A page, built family by family.
#[derive(Debug, Default)]
pub(super) struct MetricsPage(Vec<Family>);

impl MetricsPage {
    /// Adds a metric with its series.
    pub(super) fn add(
        &mut self,
        metric: Metric,
        series: impl IntoIterator<Item = (Labels, SeriesValue)>,
    ) {
        self.0.push(Family { metric, series: series.into_iter().collect() });
    }

    /// Adds a metric without labels.
    pub(super) fn add_one(&mut self, metric: Metric, value: SeriesValue) {
        self.add(metric, [(Labels::new(), value)]);
    }

    /// Adds a counter without labels.
    pub(super) fn count(&mut self, metric: Metric, count: u64) {
        self.add_one(metric, SeriesValue::Count(count));
    }

    /// Adds a gauge without labels.
    pub(super) fn gauge(&mut self, metric: Metric, value: f64) {
        self.add_one(metric, SeriesValue::Gauge(value));
    }

    /// Returns the text of the page.
    pub(super) fn text(self) -> Result<String, fmt::Error> {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for MetricsPage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { metric, series } in &self.0 {
            let Metric { name, kind, labels, help } = metric;
            let name = name.strip_suffix(kind.suffix()).unwrap_or(name);
            let kind = match kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
                MetricKind::Info => MetricType::Info,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (values, value) in series {
                let labels: Vec<(&str, &str)> =
                    labels.iter().copied().zip(values.iter().map(|value| &**value)).collect();
                match value {
                    SeriesValue::Info => family.encode_info(&labels)?,
                    value if labels.is_empty() => write(&mut family, value)?,
                    value => write(&mut family.encode_family(&labels)?, value)?,
                }
            }
        }
        Ok(())
    }
}

/// Writes a value.
fn write(encoder: &mut MetricEncoder<'_>, value: &SeriesValue) -> fmt::Result {
    match value {
        SeriesValue::Count(count) => encoder.encode_counter::<NoLabelSet, u64, f64>(count, None),
        SeriesValue::Gauge(value) => encoder.encode_gauge(value),
        SeriesValue::Histogram(Histogram { sum, count, buckets }) => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
        SeriesValue::Info => Ok(()),
    }
}
