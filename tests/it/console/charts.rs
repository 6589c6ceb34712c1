//! The charts of pools: the server samples pools that have series, and pages record the others.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{ConsoleServer, PATIENCE};
use crate::support::world::admit;

const SERIES: &str = "[metrics]\npools = [\"ar:*\"]\n";
const POOLS: usize = 100;
const ONLY_PAGES: &str = "waiting and capacity, while a page showed the pool";

/// Whether the line of the slots in use has a value.
fn has_values(page: &str) -> bool {
    assert!(page.contains("<path class=\"line one\" d=\""), "{page}");
    !page.contains("<path class=\"line one\" d=\"\"")
}

async fn a_pool_with_series_has_a_chart_before_a_page_shows_it(server: ConsoleServer) {
    let mut client = server.client().await;
    for number in 0..POOLS {
        client.admit_task(admit(&format!("ar:{number}"), "camera", "task")).await.unwrap();
    }
    client.admit_task(admit("other", "camera", "task")).await.unwrap();
    // The first visit starts the sampling. This page shows no pool.
    assert_eq!(server.get("/system", "").await.status, 200);
    // A page shows each pool once, and not the current step, so the values come from samples.
    let sampled = async {
        for number in 0..POOLS {
            let page = server.get(&format!("/pool?name=ar%3A{number}"), "").await.body;
            if has_values(&page) {
                return page;
            }
            sleep(Duration::from_millis(500)).await;
        }
        panic!("no chart has a sample");
    };
    let page = timeout(PATIENCE, sampled).await.expect("a chart has a sample");
    assert!(page.contains("in use <b>1</b>") && !page.contains(ONLY_PAGES), "{page}");
    let other = server.get("/pool?name=other", "").await.body;
    assert!(other.contains(ONLY_PAGES) && !has_values(&other), "{other}");
    let chart = |page: &str| has_values(page) && page.contains(ONLY_PAGES);
    server.until("pages record it", "/pool?name=other", "", |reply| chart(&reply.body)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_series_has_a_chart_before_a_page_shows_it_embedded() {
    a_pool_with_series_has_a_chart_before_a_page_shows_it(ConsoleServer::start(SERIES).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_series_has_a_chart_before_a_page_shows_it_redis() {
    let server = ConsoleServer::on_redis(SERIES).await;
    a_pool_with_series_has_a_chart_before_a_page_shows_it(server).await;
}
