//! Every page in both themes at three widths: accessibility, policy, width, and pictures.

use std::{fs, path::PathBuf};

use crate::{
    browser::{Browser, Theme},
    console::{Console, Engine},
};

const WIDTHS: [u32; 3] = [320, 1280, 1920];

/// The pages, and the names of their pictures.
pub const PAGES: [(&str, &str); 15] = [
    ("/", "overview"),
    ("/pools", "pools"),
    ("/pool?name=ar%3A0571", "pool"),
    ("/rates", "rates"),
    ("/policy?name=crawlers", "policy"),
    ("/key?policy=crawlers&name=203.0.113.7", "key"),
    ("/sequences", "sequences"),
    ("/sequence?name=order", "sequence"),
    ("/locks", "locks"),
    ("/lock?name=nightly-report", "lock"),
    ("/stock", "stock"),
    ("/sku?name=ticket%3Afront", "sku"),
    ("/events?of=pool&name=ar%3A0571", "events"),
    ("/system", "system"),
    ("/reload", "reload"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_sound_in_both_themes_at_every_width() {
    let Some(browser) = Browser::start().await else { return };
    let console = filled().await;
    browser.open(&console.url("/")).await;
    for theme in Theme::ALL {
        browser.look(320, theme).await;
        browser.is_sound("the login").await;
        keep(&browser, "login", 320, theme).await;
    }
    console.sign_in(&browser, &console.operator, "/").await;
    for (path, name) in PAGES {
        for theme in Theme::ALL {
            for width in WIDTHS {
                browser.look(width, theme).await;
                browser.open(&console.url(path)).await;
                browser.is_live().await;
                let page = format!("{path}, {theme:?}, {width} px");
                assert!(browser.count("main section").await > 0, "{page}: no part");
                match width {
                    1280 => browser.is_sound(&page).await,
                    _ => assert_eq!(browser.overflow().await, 0, "pixels that {page} is too wide"),
                }
                keep(&browser, name, width, theme).await;
            }
        }
    }
}

/// Returns a server as an operator meets it: a busy, a paused and a full pool, and some more.
pub async fn filled() -> Console {
    let mut console = Console::start(Engine::Embedded).await;
    for (number, city) in ["hangzhou", "ningbo", "suzhou", "wuxi", "jiaxing"].iter().enumerate() {
        let pool = format!("ar:{city}");
        console.capacity(&pool, 4).await;
        for slot in 0..number {
            console.admit(&pool, &format!("cam-{slot:03}"), &format!("scan-{number}{slot}")).await;
        }
    }
    fill_others(&console).await;
    console.fleet(&[
        "--pool=ar:0571",
        "--devices=40",
        "--capacity=12",
        "--report-interval=2s",
        "--task-duration=3s..9s",
        "--lease=15s",
        "--late=5%",
        "--silent=5%",
        "--seed=7",
    ]);
    console
}

/// Keys, sequences, locks and stock.
pub async fn fill_others(console: &Console) {
    for (key, calls) in [("203.0.113.7", 9), ("198.51.100.4", 5), ("192.0.2.1", 1)] {
        for _ in 0..calls {
            console.check(key).await;
        }
    }
    for (name, count) in [("order", 42), ("invoice", 7)] {
        console.next(name, count).await;
    }
    for (name, owner) in [("nightly-report", "worker-a"), ("site:hz-1", "crane-2")] {
        console.acquire(name, owner).await;
    }
    for (sku, on_hand, reserved) in [("ticket:front", 100, 93), ("ticket:back", 500, 20)] {
        console.stock(sku, on_hand).await;
        console.reserve(sku, "order-1", reserved).await;
    }
}

/// Writes a picture to the folder of the build.
pub async fn keep(browser: &Browser, name: &str, width: u32, theme: Theme) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console");
    fs::create_dir_all(&folder).unwrap();
    let file = format!("{name}-{}-{width}.png", theme.name());
    fs::write(folder.join(file), browser.screenshot().await).unwrap();
}
