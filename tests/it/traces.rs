//! Traces: spans of sampled calls at a collector, and collectors that fail.

mod collectors;
mod sampling;
mod spans;

use tollgate::server::{
    Rules,
    otlp::{Otlp, OtlpOptions},
};

use crate::support::{collector::Collector, world::World};

/// A world that exports spans to a collector.
pub struct Traced {
    pub world: World,
    pub collector: Collector,
    pub otlp: Otlp,
}

impl Traced {
    pub async fn start(redis: bool, sampling: f64) -> Traced {
        let collector = Collector::start().await;
        let options = OtlpOptions { endpoint: collector.address.clone(), sampling };
        let otlp = Otlp::start(&options).unwrap();
        let rules = Rules { otlp: Some(otlp.clone()), ..Rules::default() };
        Traced { world: World::with_rules(redis, rules).await, collector, otlp }
    }
}
