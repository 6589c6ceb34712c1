//! Policies, keys and bans: what the pages show agrees with GetKey, and the actions act.

use crate::{
    browser::Browser,
    console::{Console, Engine},
};

on_each_engine!(policies_keys_and_bans);

const KEY: &str = "203.0.113.7";

async fn policies_keys_and_bans(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    for _ in 0..4 {
        console.check(KEY).await;
    }
    console.sign_in(&browser, &console.operator, "/rates").await;
    browser.until("the refusals", async || browser.rows("policies").await[0][4] == "2").await;
    let row = &browser.rows("policies").await[0];
    assert_eq!([&*row[0], &*row[2]], ["crawlers", "above 5: ban 1 h"]);
    browser.click("//a[text()='crawlers']").await;
    browser.until("the key", async || browser.rows("refused").await.len() == 1).await;
    assert_eq!(browser.rows("refused").await[0], [KEY, "2", "–"]);

    browser.click("#refused a").await;
    let limit = console.key(KEY).await.limits.remove(0);
    browser.until("the usage", async || browser.rows("limits").await.len() == 1).await;
    let used = browser.rows("limits").await.remove(0);
    let expected = [limit.count, limit.max, limit.remaining].map(|number| number.to_string());
    assert_eq!(used[2..5], expected);
    browser.act("#act-reset", &[], "reset").await;
    browser.done("Reset the usage").await;
    assert_eq!(console.key(KEY).await.limits[0].count, 0);
    console.audited("operator", "ResetRate", "crawlers", "OK").await;

    // The page follows calls without a reload.
    browser.run("window.unloaded = false", &[]).await;
    console.check(KEY).await;
    browser.until("one call", async || browser.rows("limits").await[0][2] == "1").await;
    assert_eq!(browser.run("return window.unloaded", &[]).await, false);

    browser.act("#act-ban", &[("minutes", "5"), ("reason", "scrapes")], "ban").await;
    browser.done("Banned").await;
    let ban = console.key(KEY).await.ban.expect("a ban");
    assert_eq!(ban.reason, "scrapes");
    // The stream may first send the parts of the second before the ban.
    let is_shown = async || browser.facts("ban").await["Banned"].starts_with("for ");
    browser.until("the ban", is_shown).await;
    let facts = browser.facts("ban").await;
    assert_eq!([&*facts["Reason"], &*facts["Strikes"]], ["scrapes", "1"]);
    browser.click("button[value=lift]").await;
    browser.done("Lifted the ban").await;
    assert!(console.key(KEY).await.ban.is_none());
    console.audited("operator", "Unban", "crawlers", "OK").await;

    // The same from the page of the policy.
    browser.open(&console.url("/policy?name=crawlers")).await;
    browser.act("#act-ban", &[("key", "198.51.100.4"), ("minutes", "60")], "ban").await;
    browser.done("Banned 198.51.100.4").await;
    assert!(console.key("198.51.100.4").await.ban.is_some());
    let row = "//section[@id='bans']//tr[th='198.51.100.4']";
    browser.click(&format!("{row}//summary")).await;
    browser.click(&format!("{row}//button")).await;
    browser.done("Lifted").await;
    assert!(console.key("198.51.100.4").await.ban.is_none());
    console.audited("operator", "Ban", "crawlers", "OK").await;
}
