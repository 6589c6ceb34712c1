//! What a server observes of itself: counters and histograms ([`metrics`]), traces of sampled calls
//! ([`spans`]), the pace of log lines ([`line_pace`]), and text for people ([`text`]).
//!
//! Knows neither rules nor engines.

mod clock;
pub mod line_pace;
pub mod metrics;
pub mod spans;
pub mod text;

pub use clock::coarse;
