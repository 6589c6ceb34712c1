//! What the pages show agrees with the API, while a fleet runs.

use tollgate_client::pb;

use crate::{
    browser::Browser,
    console::{Console, Engine},
    support::requests::patient,
};

on_each_engine!(
    the_overview_agrees_with_the_api,
    the_pools_agree_with_the_api,
    a_pool_agrees_with_the_api_and_changes_without_a_reload,
);

/// Devices that take a slot about once a second.
const FLEET: [&str; 10] = [
    "--pool=ar:0571",
    "--devices=24",
    "--capacity=8",
    "--report-interval=4s",
    "--task-duration=4s..12s",
    "--lease=20s",
    "--late=10%",
    "--silent=10%",
    "--crashes=5%",
    "--seed=7",
];

async fn busy(engine: Engine) -> Console {
    let mut console = Console::start(engine).await;
    console.capacity("quiet", 5).await;
    console.admit("quiet", "camera-1", "scan-1").await;
    console.fleet(&FLEET);
    console
}

/// Returns the pools of the list: name, in use, capacity, waiting, queued, refused.
async fn listed(console: &Console) -> Vec<[String; 6]> {
    let request = patient(pb::ListPoolsRequest::default());
    let pools = console.admission().list_pools(request).await.unwrap().into_inner().pools;
    let row = |pool: &pb::Pool| {
        let usage = pool.usage.unwrap();
        let numbers = [usage.in_use.into(), usage.capacity.into(), u64::from(pool.waiters)];
        let [in_use, capacity, waiters] = numbers.map(|number| number.to_string());
        let [queued, refused] = [pool.queued, pool.refused].map(|number| number.to_string());
        [pool.pool.clone(), in_use, capacity, waiters, queued, refused]
    };
    let mut rows: Vec<_> = pools.iter().map(row).collect();
    rows.sort();
    rows
}

/// Returns the same columns of the page.
async fn shown(browser: &Browser) -> Vec<[String; 6]> {
    let rows = browser.rows("pools").await;
    let row = |row: &Vec<String>| [0, 2, 3, 4, 5, 6].map(|column| row[column].clone());
    let mut rows: Vec<_> = rows.iter().map(row).collect();
    rows.sort();
    rows
}

async fn the_overview_agrees_with_the_api(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = busy(engine).await;
    console.sign_in(&browser, &console.operator, "/").await;
    browser
        .until("the pools agree", async || {
            let listed = listed(&console).await;
            listed.len() == 2 && shown(&browser).await == listed
        })
        .await;
    let status = console.status().await;
    let facts = browser.facts("store").await;
    assert_eq!(facts["Store"], status.store);
    assert_eq!(facts["Version"], status.version);
    assert_eq!(facts["Engine"], format!("{}, {}", status.engine, status.topology));
    assert_eq!(facts["Failovers"], "0");
    let configuration = status.configuration.unwrap();
    let shown = browser.facts("configuration").await;
    assert_eq!(shown["Hash"], configuration.hash);
    assert_eq!(shown["Last load"], "succeeded");
    // The chart has a value as soon as a step is complete.
    browser
        .until("calls per second", async || {
            let value = browser.run("return document.querySelector('#load .key b').innerText", &[]);
            value.await.as_str().unwrap().parse().is_ok_and(|calls: f64| calls > 0.0)
        })
        .await;
}

async fn the_pools_agree_with_the_api(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = busy(engine).await;
    console.sign_in(&browser, &console.operator, "/pools").await;
    browser
        .until("the pools agree", async || {
            let listed = listed(&console).await;
            listed.len() == 2 && shown(&browser).await == listed
        })
        .await;
    // The fullest pool is the first; a filter and the order by name are parts of the address.
    assert_eq!(browser.rows("pools").await[0][0], "ar:0571");
    browser.fill("input[name=prefix]", "qui").await;
    browser.click("form[role=search] button").await;
    browser.until("one pool", async || browser.rows("pools").await.len() == 1).await;
    assert_eq!(browser.rows("pools").await[0][..4], ["quiet", "20 %", "1", "5"]);
    browser.click("//a[text()='quiet']").await;
    browser.until("the pool", async || browser.rows("leases").await.len() == 1).await;
    assert_eq!(browser.rows("leases").await[0][..2], ["camera-1", "scan-1"]);
}

async fn a_pool_agrees_with_the_api_and_changes_without_a_reload(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = busy(engine).await;
    console.sign_in(&browser, &console.operator, "/pool?name=ar%3A0571").await;
    browser.run("window.unloaded = false", &[]).await;
    for _ in 0..3 {
        let before = browser.rows("leases").await;
        browser
            .until("usage and leases agree", async || {
                let pool = console.pool("ar:0571").await;
                let leases = console.leases("ar:0571").await;
                let mut expected: Vec<_> = leases
                    .iter()
                    .map(|it| {
                        [it.device_id.clone(), it.task_id.clone(), it.fencing_token.to_string()]
                    })
                    .collect();
                expected.sort();
                let rows = browser.rows("leases").await;
                let mut shown: Vec<_> =
                    rows.iter().map(|row| [0, 1, 2].map(|column| row[column].clone())).collect();
                shown.sort();
                let facts = browser.facts("usage").await;
                let usage = pool.usage.unwrap();
                let big = format!("{} of {} slots in use", usage.in_use, usage.capacity);
                !leases.is_empty()
                    && rows != before
                    && shown == expected
                    && browser.text().await.contains(&big)
                    && facts["Free"] == usage.available.to_string()
                    && facts["Waiting calls"] == pool.waiters.to_string()
                    && facts["Refused by this server"].split(',').next()
                        == Some(&pool.refused.to_string())
            })
            .await;
    }
    let settings = browser.facts("settings").await;
    assert_eq!([&*settings["Capacity"], &*settings["Paused"]], ["8", "no"]);
    assert_eq!(settings["Set at run time"], "capacity");
    assert_eq!(browser.run("return window.unloaded", &[]).await, false);
}
