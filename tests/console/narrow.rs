//! Every page on a phone, 360 px wide: nothing is cut off, and no short word is broken.

use serde_json::Value;

use crate::{
    browser::{Browser, Theme},
    looks::{PAGES, filled, keep},
};

const WIDTH: u32 = 360;

/// The elements that are wider than their place or than the window, and the words of up to 18
/// letters that are broken. Skips hidden text, and input fields, whose text scrolls.
const FAULTS: &str = r"
    const found = [], name = one => `${one.localName}.${one.className} ${one.textContent.trim().slice(0, 60)}`;
    for (const one of document.querySelectorAll('body *:not(svg *, .quiet, .skip, input, select, option)')) {
        const box = one.getBoundingClientRect();
        if (box.width <= 1 || one.closest('.quiet, .skip, thead')) continue;
        if (box.right > innerWidth + 0.5 || box.left < -0.5) found.push(`outside: ${name(one)}`);
        if (one instanceof HTMLElement && one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1)
            found.push(`cut off: ${name(one)}`);
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        if (text.parentElement.closest('.quiet, .skip, thead, script')) continue;
        for (const word of text.data.matchAll(/[\p{L}\p{N}]{2,18}/gu)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].filter(one => one.width > 0).map(one => Math.round(one.top)));
            if (lines.size > 1) found.push(`broken: ${word[0]} in ${name(text.parentElement)}`);
        }
    }
    return found;";

async fn faults(browser: &Browser) -> Vec<String> {
    let found = browser.run(FAULTS, &[]).await;
    let text = |one: &Value| one.as_str().unwrap().to_owned();
    found.as_array().unwrap().iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn j34_every_page_is_readable_at_360_pixels() {
    let Some(browser) = Browser::start().await else { return };
    let console = filled().await;
    browser.look(WIDTH, Theme::Light).await;
    browser.open(&console.url("/")).await;
    assert_eq!(faults(&browser).await, [""; 0], "the login");
    console.sign_in(&browser, &console.operator, "/").await;
    let mut found = Vec::new();
    for (path, name) in PAGES {
        browser.open(&console.url(path)).await;
        browser.is_live().await;
        found.extend(faults(&browser).await.iter().map(|fault| format!("{path}: {fault}")));
        assert_eq!(browser.accessibility().await, [""; 0], "axe-core on {path}");
        keep(&browser, name, WIDTH, Theme::Light).await;
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Each value of a row has the name of its column.
    browser.open(&console.url("/pool?name=ar%3A0571")).await;
    browser.is_live().await;
    let labels = "const row = [...document.querySelectorAll('#leases tbody tr')].at(0);
        return row && [...row.cells].map(cell => getComputedStyle(cell, '::before').content)";
    browser
        .until("the columns of a lease are named", async || {
            let labels = browser.run(labels, &[]).await.to_string();
            ["Task", "Token", "Age", "Time left"].iter().all(|name| labels.contains(name))
        })
        .await;
}
