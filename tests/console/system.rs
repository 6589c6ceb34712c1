//! The configuration in use, and its reload.

use crate::{
    browser::Browser,
    console::{Console, Engine},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_shows_the_differences_first() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    console.sign_in(&browser, &console.operator, "/system").await;
    let text = browser.text().await;
    assert!(text.contains("policy[\"crawlers\"]"), "{text}");
    for token in [&console.operator, &console.reader] {
        assert!(!text.contains(&token.digest) && !text.contains(&token.text), "{text}");
    }
    assert_eq!(browser.facts("program").await["Version"], console.status().await.version);

    // The server also reloads by itself within seconds, and then there are no differences.
    console.configure("[[pool]]\nmatch = \"ar:*\"\ncapacity = 77\n");
    browser.open(&console.url("/reload")).await;
    let rows = browser.rows("differences").await;
    if !rows.is_empty() {
        let added = |row: &Vec<String>| row[0].contains("ar:*") && row[1] == "not set";
        assert!(rows.iter().any(added), "{rows:?}");
        browser.click("button[value=reload]").await;
        browser.find(".message.done").await;
        console.audited("operator", "ReloadConfig", "", "OK").await;
    }
    browser.open(&console.url("/system")).await;
    browser.shows("77").await;

    // A caller of one namespace sees nothing of the server.
    browser.click("form[action='/logout'] button").await;
    browser.find("#token").await;
    console.sign_in(&browser, &console.reader, "/system").await;
    browser.shows("requires a caller that may read in every namespace").await;
}
