//! The series of pools.

use tollgate_status::metrics::SERIES_MAX;

use super::AdminServer;
use crate::support::{certificates::Authority, certificates::Files, world::World};

/// More pools than have series.
const POOLS: usize = SERIES_MAX + 20;

#[tokio::test(flavor = "multi_thread")]
async fn at_most_a_thousand_pools_have_series_and_the_rest_are_counted() {
    let files = Files::new(&Authority::new("ours").server());
    files.write(
        "pools.toml",
        "[metrics]\npools = [\"ar:*\"]\n[[pool]]\nmatch = \"*\"\ncapacity = 1\n",
    );
    let server = AdminServer::start(&["--config", &files.text("pools.toml")]).await;
    let world = World::at(server.server.address()).await;
    world.admit("other", "camera", "task").await;
    for number in 0..POOLS {
        world.admit(&format!("ar:{number}"), "camera", "task").await;
    }
    world.admit("ar:0", "camera-2", "task").await;
    let scrape = server
        .scrape_until("all pools are counted", |scrape| {
            scrape.value("tollgate_metrics_dropped_series") as usize == POOLS - SERIES_MAX
        })
        .await;
    let series = |name: &str| scrape.series.keys().filter(|key| key.starts_with(name)).count();
    for name in ["in_use{", "capacity{", "queued{", "refused_total{"] {
        assert_eq!(series(&format!("tollgate_pool_{name}")), SERIES_MAX, "{name}");
    }
    let of =
        |name: &str| scrape.value(&format!("tollgate_pool_{name}{{namespace=\"\",pool=\"ar:0\"}}"));
    assert_eq!(
        [of("in_use"), of("capacity"), of("queued"), of("refused_total")],
        [1.0, 1.0, 0.0, 1.0]
    );
    assert_eq!(series("tollgate_pool_in_use{namespace=\"\",pool=\"other\"}"), 0);
}
