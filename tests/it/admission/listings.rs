//! ListLeases and ListPools, page by page.

use std::time::Duration;

use tollgate_client::pb;

use crate::support::world::{World, capacity};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(300);

on_both_engines! {
    leases_are_listed_in_pages,
    pools_are_listed_in_pages,
}

async fn leases_are_listed_in_pages(world: World) {
    for device in 0..25 {
        world.admit("p", &format!("d{device:02}"), "t").await;
        if device % 5 == 4 {
            world.advance(SECOND).await;
        }
    }
    let mut client = world.client.clone();
    let mut request =
        pb::ListLeasesRequest { pool: "p".into(), page_size: Some(4), page_token: String::new() };
    let mut seen = Vec::new();
    loop {
        let page = client.list_leases(request.clone()).await.unwrap().into_inner();
        assert!(page.leases.len() <= 4);
        seen.extend(page.leases.into_iter().map(|lease| lease.device_id));
        // The last lease of a page may end between two pages.
        if seen.len() == 8 {
            world.complete("p", &seen[7], "t").await;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    seen.dedup();
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 25, "{seen:?}");
    let listed =
        client.list_leases(pb::ListLeasesRequest { pool: "p".into(), ..Default::default() });
    assert_eq!(listed.await.unwrap().into_inner().leases.len(), 24);
    world.advance(LEASE).await;
    let listed =
        client.list_leases(pb::ListLeasesRequest { pool: "p".into(), ..Default::default() });
    assert_eq!(listed.await.unwrap().into_inner().leases, []);
}

async fn pools_are_listed_in_pages(world: World) {
    for pool in 0..23 {
        world.admit(&format!("held{pool:02}"), "d", "t").await;
    }
    world.configure(capacity("configured", 5)).await;
    world.admit("emptied", "d", "t").await;
    world.complete("emptied", "d", "t").await;
    world.complete("asked", "d", "t").await;

    let mut client = world.client.clone();
    let mut request = pb::ListPoolsRequest { page_size: Some(10), page_token: String::new() };
    let mut pools = Vec::new();
    loop {
        let page = client.list_pools(request.clone()).await.unwrap().into_inner();
        assert!(page.pools.len() <= 10);
        pools.extend(page.pools.into_iter().map(|pool| pool.pool));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    pools.sort();
    let mut expected: Vec<String> = (0..23).map(|pool| format!("held{pool:02}")).collect();
    expected.insert(0, "configured".to_owned());
    assert_eq!(pools, expected);
}
