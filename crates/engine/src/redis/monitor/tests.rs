use std::sync::{OnceLock, atomic::AtomicU64};

use redis::ErrorKind;

use super::{
    super::{
        RedisOptions,
        address::Address,
        evaluate::Scripts,
        marker::{Markers, OnStoreLoss},
        servers::ServerChannels,
        skew::Skew,
    },
    *,
};

fn monitor(state: StoreState) -> Monitor {
    let shared = Shared {
        scripts: Scripts::new(None),
        queued_max: 0,
        batch_max: 1,
        router: OnceLock::new(),
        losses: AtomicU64::new(0),
        failovers: AtomicU64::new(0),
        skew: Skew::new(),
        batches: AtomicU64::new(0),
        probe_key: "test:probe".to_owned(),
        marker_key: "test:store".to_owned(),
        markers: Markers::new(OnStoreLoss::Refuse, "test:store", None),
        servers: ServerChannels::new(&"test:hints:0".into()),
    };
    let options = RedisOptions::new("redis://127.0.0.1:1");
    let Ok(Address::Single(endpoint)) = options.address() else { panic!("an address") };
    Monitor::new(NodeSource::Fixed(endpoint), state, Eviction::Refuse, Arc::new(shared))
}

fn timed_out() -> RedisError {
    (ErrorKind::Io, "timed out").into()
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(why.to_owned())
}

/// A connection attempt that started earlier and fails later does not replace the reason from the
/// probe.
#[test]
fn a_late_failed_connect_keeps_the_reason_of_the_probe() {
    let monitor = monitor(StoreState::Up);
    monitor.set_down("no answer to PING", false, false);
    monitor.record_failed_connect(&timed_out());
    assert_eq!(monitor.down(), unavailable("no answer to PING"));
}

#[test]
fn a_failed_connect_to_a_usable_node_becomes_the_reason() {
    let monitor = monitor(StoreState::Up);
    monitor.record_failed_connect(&timed_out());
    assert!(monitor.is_up());
    assert_eq!(monitor.down(), unavailable(&format!("cannot connect: {}", timed_out())));
}
