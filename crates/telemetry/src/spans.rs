//! Spans of sampled calls, independent of any tracing library.
//!
//! `grpc` starts a [`CallSpan`] for a sampled call and makes it current while the call runs. An
//! engine asks for the [`current`] calls and records the spans of its own work as their children. A
//! [`Recorder`] receives finished spans, and `server` exports them. Other calls have no span.

mod current;

use std::{borrow::Cow, fmt, sync::Arc, time::Instant};

use super::clock::{monotonic, unix_micros};

pub use current::{Entered, Within, current, enter, trace_id};

/// Maximum number of links from a span to spans of other calls.
const LINKS_MAX: usize = 8;

/// The identity of a trace, in hexadecimal digits as in `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The identity of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span in the trace; not 0.
    pub span: u64,
}

/// The parent of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The span in the same trace; not 0.
    pub span: u64,
    /// Whether another process recorded the parent.
    pub is_remote: bool,
}

/// The side of a call that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Tollgate answers a call.
    Server,
    /// Tollgate calls its store.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text of bounded length.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

/// A property of a span.
pub type Attribute = (&'static str, SpanValue);

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its identity.
    pub context: SpanContext,
    /// Its parent; `None` if it begins the trace.
    pub parent: Option<Parent>,
    /// Its side.
    pub kind: SpanKind,
    /// Its name, one of a small set.
    pub name: Cow<'static, str>,
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Its properties.
    pub attributes: Vec<Attribute>,
    /// Spans of other traces that the same work served.
    pub links: Vec<SpanContext>,
    /// The number of further links, which were left out.
    pub links_left_out: u32,
    /// The reason of a failure; `None` if the work has succeeded.
    pub failure: Option<Cow<'static, str>>,
}

/// Receives the spans that have ended. It must not block.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// Receives a span. If it cannot store the span, it drops and counts it.
    fn record(&self, span: Span);
}

/// The span of a sampled call. A clone is the same span.
#[derive(Debug, Clone)]
pub struct CallSpan {
    /// Its identity.
    pub context: SpanContext,
    recorder: Arc<dyn Recorder>,
}

impl CallSpan {
    /// Creates a new span in a trace. `None` begins a trace.
    pub fn new(trace: Option<TraceId>, recorder: Arc<dyn Recorder>) -> CallSpan {
        let new = || TraceId(u128::from(current::drawn()) << 64 | u128::from(current::drawn()));
        let context = SpanContext { trace: trace.unwrap_or_else(new), span: current::drawn() };
        CallSpan { context, recorder }
    }

    /// Records the span of the call, or of a part of the call.
    pub fn record(&self, span: Span) {
        self.recorder.record(span);
    }
}

/// The sampled calls that some work serves: one call, or several in a batch.
pub type Calls = Arc<[CallSpan]>;

/// The start of a span.
#[derive(Debug, Clone, Copy)]
pub struct SpanStart {
    time: u64,
    since: Instant,
}

impl SpanStart {
    /// Returns the current time.
    pub fn now() -> SpanStart {
        SpanStart { time: unix_micros(), since: monotonic() }
    }

    /// Returns the start, and the current time as the end.
    pub fn until_now(self) -> (u64, u64) {
        (self.time, self.time + self.since.elapsed().as_micros() as u64)
    }
}

/// Work for a batch, as a child span of each sampled call in it.
#[derive(Debug)]
pub struct BatchSpans {
    start: SpanStart,
    calls: Vec<CallSpan>,
    /// The number of items in the batch.
    size: usize,
}

impl BatchSpans {
    /// Starts the spans of a batch. `items` yields the calls of each item. Returns `None` if no
    /// call of the batch is sampled; that costs only a pass over the items.
    pub fn start<'a>(
        items: impl ExactSizeIterator<Item = Option<&'a Calls>>,
    ) -> Option<BatchSpans> {
        let size = items.len();
        let mut calls: Vec<CallSpan> = Vec::new();
        let mut last: Option<&Calls> = None;
        for item in items.flatten() {
            // Calls of one item, and calls that were combined, are neighbours.
            if !last.is_some_and(|last| Arc::ptr_eq(last, item)) {
                calls.extend_from_slice(item);
            }
            last = Some(item);
        }
        if calls.is_empty() {
            None
        } else {
            calls.sort_by_key(|call| call.context.span);
            calls.dedup_by_key(|call| call.context.span);
            Some(BatchSpans { start: SpanStart::now(), calls, size })
        }
    }

    /// Ends the spans with these attributes. Each links to the spans of up to [`LINKS_MAX`] other
    /// calls of the batch.
    pub fn end(
        self,
        name: &'static str,
        attributes: impl Fn(usize) -> Vec<Attribute>,
        failure: Option<&'static str>,
    ) {
        let (start, end) = self.start.until_now();
        let child = |call: &CallSpan| SpanContext { span: current::drawn(), ..call.context };
        let children: Vec<SpanContext> = self.calls.iter().map(child).collect();
        let others = children.len() - 1;
        for (index, (call, context)) in self.calls.iter().zip(&children).enumerate() {
            let next = children.iter().cycle().skip(index + 1);
            call.record(Span {
                context: *context,
                parent: Some(Parent { span: call.context.span, is_remote: false }),
                kind: SpanKind::Client,
                name: Cow::Borrowed(name),
                start,
                end,
                attributes: attributes(self.size),
                links: next.take(others.min(LINKS_MAX)).copied().collect(),
                links_left_out: u32::try_from(others.saturating_sub(LINKS_MAX)).unwrap_or(u32::MAX),
                failure: failure.map(Cow::Borrowed),
            });
        }
    }
}

/// Whether a call without a sampling decision of its caller is sampled, at this ratio.
pub fn is_drawn(ratio: f64) -> bool {
    // 53 bits are the precision of the ratio.
    ratio > 0.0 && ((current::drawn() >> 11) as f64) < ratio * (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests;
