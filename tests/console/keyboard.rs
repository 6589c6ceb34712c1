//! Everything can be reached and done with the keyboard alone.

use serde_json::Value;

use crate::{
    browser::Browser,
    console::{Console, Engine},
};

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// Elements that a user can act on, in the order of the page, and the one that has the focus.
const REACHED: &str = "const all = [...document.querySelectorAll(
        'a[href], button, input:not([type=hidden]), select, summary, [tabindex=\"0\"]')]
        .filter(one => one.checkVisibility());
    return [all.length, all.indexOf(document.activeElement)]";

/// Presses Tab until the focus is on an element of this selector. The focus moves in the order of
/// the page.
async fn tab_to(browser: &Browser, selector: &str) {
    for _ in 0..200 {
        browser.press(TAB).await;
        let is_there = "return document.activeElement.matches(arguments[0])";
        if browser.run(is_there, &[selector.into()]).await == true {
            return;
        }
    }
    panic!("Tab does not reach {selector}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_reaches_everything_in_order_and_enter_acts() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    console.admit("p", "camera", "scan").await;
    browser.open(&console.url("/pool?name=p")).await;
    // The field has the focus.
    for key in console.operator.text.chars() {
        browser.press(key).await;
    }
    browser.press(ENTER).await;
    browser.find("nav[aria-label=Pages]").await;
    for path in ["/", "/pools", "/pool?name=p"] {
        browser.open(&console.url(path)).await;
        let first = browser.run(REACHED, &[]).await;
        let count = first[0].as_i64().unwrap();
        assert!(count > 4, "{path}: {first}");
        let mut reached: Vec<Value> = Vec::new();
        for _ in 0..count {
            browser.press(TAB).await;
            reached.push(browser.run(REACHED, &[]).await[1].clone());
        }
        assert_eq!(reached, (0..count).map(Value::from).collect::<Vec<_>>(), "{path}");
    }

    // The first element skips to the content.
    browser.open(&console.url("/pool?name=p")).await;
    browser.press(TAB).await;
    browser.press(ENTER).await;
    let focused = browser.run("return document.activeElement.id", &[]).await;
    assert_eq!(focused, "main");

    tab_to(&browser, "button[value=pause]").await;
    browser.press(ENTER).await;
    browser.shows("Paused the pool").await;
    assert!(console.pool("p").await.config.unwrap().paused);

    tab_to(&browser, "#act-capacity summary").await;
    browser.press(ENTER).await;
    tab_to(&browser, "input[name=capacity]").await;
    browser.press('9').await;
    browser.press(ENTER).await;
    browser.shows("Set the capacity to").await;
    assert_ne!(console.pool("p").await.usage.unwrap().capacity, 60);

    tab_to(&browser, "#leases summary").await;
    browser.press(ENTER).await;
    tab_to(&browser, "#leases button").await;
    browser.press(ENTER).await;
    browser.shows("Evicted task scan").await;
    assert_eq!(console.pool("p").await.usage.unwrap().in_use, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_stays_while_a_part_changes() {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(Engine::Embedded).await;
    for device in ["camera-1", "camera-2"] {
        console.admit("p", device, "scan").await;
    }
    console.sign_in(&browser, &console.operator, "/pool?name=p").await;
    tab_to(&browser, "tr:nth-child(2) summary").await;
    console.admit("p", "camera-3", "scan").await;
    browser.until("a third row", async || browser.rows("leases").await.len() == 3).await;
    let row = "const row = document.activeElement.closest('tr');
        return row ? row.cells[0].innerText : document.activeElement.localName";
    assert_eq!(browser.run(row, &[]).await, "camera-2");
}
