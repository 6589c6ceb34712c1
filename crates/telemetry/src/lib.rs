//! What a server observes of itself: counters and histograms ([`metrics`]), traces of sampled calls
//! ([`spans`]), reached limits ([`limits`]), the pace of log lines ([`line_pace`]), and text for people
//! ([`text`]).
//!
//! Knows neither rules nor engines.

mod clock;
pub mod limits;
pub mod line_pace;
pub mod metrics;
pub mod spans;
pub mod text;

pub use clock::{coarse, monotonic, unix_micros};
