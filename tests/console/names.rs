//! Sequences, locks, stock and events: the pages agree with the API, and the actions work.

use crate::{
    browser::Browser,
    console::{Console, Engine},
};

on_each_engine!(sequences, a_lock_is_released, stock_is_set, events_follow_the_pool);

async fn sequences(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    let last = console.next("order", 3).await;
    console.sign_in(&browser, &console.operator, "/sequences").await;
    browser.until("the sequence", async || browser.rows("sequences").await.len() == 1).await;
    assert_eq!(browser.rows("sequences").await[0][..2], ["order".to_owned(), last.to_string()]);
    browser.click("//a[text()='order']").await;
    browser.find("#value .big").await;
    let last = console.next("order", 4).await;
    let shown = async || browser.find("#value .big").await.text().await;
    // Without a reload; the part can be replaced meanwhile.
    browser.until("the value", async || shown().await.is_ok_and(|it| it == last.to_string())).await;
}

async fn a_lock_is_released(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    console.acquire("nightly", "worker-a").await;
    console.sign_in(&browser, &console.operator, "/locks").await;
    browser.until("the lock", async || browser.rows("locks").await.len() == 1).await;
    let token = console.lock("nightly").await.lease.unwrap().fencing_token.to_string();
    assert_eq!(browser.rows("locks").await[0][..3], ["nightly", "worker-a", &token]);
    browser.click("//a[text()='nightly']").await;
    browser.until("the token", async || browser.facts("holder").await.len() == 4).await;
    assert_eq!(browser.facts("holder").await["Fencing token"], token);
    // Asks before it acts.
    assert_eq!(browser.count("#act-release[open]").await, 0);
    browser.act("#act-release", &[], "release").await;
    browser.done("Released the lock that worker-a held").await;
    assert!(!console.lock("nightly").await.held);
    console.audited("operator", "ReleaseLock", "nightly", "OK").await;
    browser.shows("Nobody holds this lock").await;
}

async fn stock_is_set(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    console.stock("ticket", 100).await;
    console.reserve("ticket", "order-1", 30).await;
    console.sign_in(&browser, &console.operator, "/stock").await;
    browser.until("the sku", async || browser.rows("stock").await.len() == 1).await;
    assert_eq!(browser.rows("stock").await[0][2..], ["100", "70", "30", "0"]);
    browser.click("//a[text()='ticket']").await;
    browser.act("#act-set", &[("on_hand", "80")], "set").await;
    browser.done("Set the quantity on hand to 80").await;
    let now = console.sku("ticket").await;
    assert_eq!([now.on_hand, now.available, now.reserved], [80, 50, 30]);
    console.audited("operator", "SetStock", "ticket", "OK").await;
    // Without a reload.
    console.reserve("ticket", "order-2", 5).await;
    browser
        .until("the hold", async || browser.facts("quantities").await["Reserved by holds"] == "35")
        .await;
    // Less than the reserved quantity is refused.
    browser.act("#act-set", &[("on_hand", "3")], "set").await;
    browser.shows("Not done.").await;
    assert_eq!(console.sku("ticket").await.on_hand, 80);
}

async fn events_follow_the_pool(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    console.admit("p", "camera-1", "scan").await;
    console.sign_in(&browser, &console.operator, "/events?of=pool&name=p").await;
    let kinds = async || {
        let rows = browser.rows("events").await;
        rows.iter().map(|row| [row[1].clone(), row[2].clone()]).collect::<Vec<_>>()
    };
    browser.until("the first", async || kinds().await == [["admitted", "camera-1"]]).await;
    console.admit("p", "camera-2", "scan").await;
    browser.until("both", async || kinds().await.len() == 2).await;
    // Paused, the page stays.
    browser.click("//a[text()='Pause']").await;
    browser.until("the pause", async || browser.count("//a[text()='Resume']").await == 1).await;
    console.admit("p", "camera-3", "scan").await;
    browser.fill("input[name=filter]", "camera-3").await;
    browser.click("form[role=search] button").await;
    browser.until("the third", async || kinds().await == [["admitted", "camera-3"]]).await;
}
