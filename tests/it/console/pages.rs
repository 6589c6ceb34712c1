//! The contents of pages: pools in order and in pages, leases, tasks, and old numbers while the
//! store is unreachable.

use super::{ConsoleServer, on_both_stores};
use crate::support::{
    process::OwnRedis,
    queue::{batch, queued},
    world::{admit, capacity},
};

/// Returns the names of the pools in a list, in their order.
fn listed(page: &str) -> Vec<&str> {
    let links = page.split("<a href=\"/pool?name=").skip(1);
    links.map(|link| link.split_once("\">").unwrap().1.split('<').next().unwrap()).collect()
}

async fn pools_are_listed_in_pages_the_fullest_first(server: ConsoleServer) {
    let mut client = server.client().await;
    for number in 0..120 {
        client.configure_pool(capacity(&format!("site:{number:03}"), 4)).await.unwrap();
    }
    for (pool, leases) in [("site:007", 1), ("site:099", 4), ("site:050", 2)] {
        for lease in 0..leases {
            client.admit_task(admit(pool, "camera", &format!("task-{lease}"))).await.unwrap();
        }
    }
    let first = server.get("/pools", "").await.body;
    let names = listed(&first);
    assert_eq!(
        (names.len(), &names[..4]),
        (100, &["site:099", "site:050", "site:007", "site:000"][..])
    );
    assert!(first.contains("Page 1 of 2, 120 pools") && first.contains("full</span>"), "{first}");
    let second = server.get("/pools?page=2", "").await.body;
    assert_eq!(listed(&second).len(), 20);
    assert_eq!(listed(&server.get("/pools?page=99", "").await.body).len(), 20);
    let by_name = server.get("/pools?sort=name&prefix=site%3A01", "").await.body;
    let expected: Vec<String> = (10..20).map(|number| format!("site:{number:03}")).collect();
    assert_eq!(listed(&by_name), expected);
    assert!(
        server.get("/pools?prefix=nothing", "").await.body.contains("No pool with such a name")
    );
    let overview = server.get("/", "").await.body;
    assert_eq!(listed(&overview)[..2], ["site:099", "site:050"]);
    assert!(overview.contains("All pools</a>: 120"), "{overview}");
}

async fn a_pool_shows_its_leases_and_tasks(server: ConsoleServer) {
    let mut client = server.client().await;
    client.configure_pool(capacity("ar:1", 100)).await.unwrap();
    for number in 0..60 {
        let lease = admit("ar:1", &format!("camera-{number:02}"), "task");
        client.admit_task(lease).await.unwrap();
    }
    let tasks = ["first", "second"].map(|task| queued("camera-x", task));
    client.enqueue_tasks(batch("ar:1", tasks.to_vec())).await.unwrap();
    let page = server.get("/pool?name=ar%3A1", "").await.body;
    assert!(page.contains("<span class=\"number\">60</span> of <span class=\"number\">100</span>"));
    assert!(page.contains("<td>first</td><td>queued</td>"), "{page}");
    let devices = |page: &str| {
        let known = (0..60).filter(|it| page.contains(&format!(">camera-{it:02}</th>")));
        known.collect::<Vec<u32>>()
    };
    let first = devices(&page);
    assert_eq!(first.len(), 25);
    let (before, _) = page.split_once("\">Next page</a>").unwrap();
    let next = before.rsplit_once("href=\"").unwrap().1.replace("&#38;", "&");
    let next = next.split('#').next().unwrap().to_owned();
    let second = devices(&server.get(&next, "").await.body);
    assert_eq!(second.len(), 25);
    assert!(second.iter().all(|device| !first.contains(device)));
    let broken = server.get("/pool?name=ar%3A1&leases=nonsense", "").await;
    assert_eq!(broken.status, 400, "{broken:?}");
    assert_eq!(server.get("/pool?name=", "").await.status, 400);
}

on_both_stores!(pools_are_listed_in_pages_the_fullest_first, a_pool_shows_its_leases_and_tasks);

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_a_page_keeps_its_last_numbers_and_says_so() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    // The server runs on a Redis that this test ends.
    let config = format!("engine = \"{}\"\n", redis.url());
    let server = ConsoleServer::start(&config).await;
    let mut client = server.client().await;
    client.admit_task(admit("ar:1", "camera", "task")).await.unwrap();
    let path = "/pool?name=ar%3A1";
    let current = server.get(path, "").await.body;
    assert!(current.contains("camera") && !current.contains("Old numbers"), "{current}");
    server.get("/", "").await;

    redis.kill();
    let down = |reply: &super::Reply| reply.body.contains("Store <b>down</b>");
    let old = server.until("the store is down", path, "", down).await;
    assert_eq!(old.status, 200);
    assert!(old.body.contains("Old numbers.") && old.body.contains("data-count=\"age\""));
    assert!(old.body.contains("camera"), "{}", old.body);
    let overview = server.get("/", "").await.body;
    assert!(overview.contains("Old numbers.") && overview.contains("ar:1"), "{overview}");
    // Nobody has looked at this page before.
    let none = server.get("/pool?name=other", "").await;
    assert_eq!(none.status, 503);
    assert!(none.body.contains("No numbers."), "{none:?}");
    let refused = server.post(path, "", "action=pause").await;
    let message = server.get(path, &refused.cookie()).await.body;
    assert!(message.contains("Not done."), "{message}");

    redis.start().await;
    let up = |reply: &super::Reply| !reply.body.contains("Old numbers.") && reply.status == 200;
    server.until("the store is up", path, "", up).await;
}
