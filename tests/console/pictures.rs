//! The pictures of the documentation. Fleets keep a server busy for a quarter of an hour, so that the
//! charts are full; therefore only `TOLLGATE_TEST_BLESS` makes them.

use std::{env, fs, path::PathBuf, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use crate::{
    browser::{Browser, Theme},
    console::{Console, Engine},
    looks::fill_others,
};

/// Pages, names of their pictures, and heights that show all that matters.
const PICTURES: [(&str, &str, u32); 3] = [
    ("/", "overview", 1030),
    ("/pool?name=ar%3Ahangzhou", "pool", 960),
    ("/policy?name=crawlers", "policy", 720),
];

/// The picture that is made in the dark theme, too.
const IN_DARK: &str = "overview";

/// Maximum size of a picture, in bytes.
const BYTES_MAX: usize = 150_000;

/// Fleets: the minutes of the start and of the end, the pool, its devices and its capacity.
const FLEETS: [(u64, u64, &str, u32, u32); 7] = [
    (0, 17, "ar:hangzhou", 60, 24),
    (0, 17, "ar:ningbo", 30, 20),
    (1, 6, "ar:suzhou", 24, 16),
    (3, 8, "ar:wuxi", 50, 16),
    (7, 10, "ar:shaoxing", 80, 24),
    (9, 17, "ar:suzhou", 32, 20),
    (12, 17, "ar:jiaxing", 40, 16),
];

/// The server samples these pools, so that their charts are full, too.
const METRICS: &str = "[metrics]\npools = [\"ar:*\"]\n";

/// When the pictures are made: as soon as the charts are full.
const END: u64 = 15;

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_shows_a_busy_system() {
    if env::var_os("TOLLGATE_TEST_BLESS").is_none() {
        return;
    }
    let Some(browser) = Browser::start().await else { return };
    let console = busy(&browser).await;
    browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    for (path, name, height) in PICTURES {
        for theme in Theme::ALL {
            let ending = match theme {
                Theme::Light => ".png",
                Theme::Dark if name == IN_DARK => "-dark.png",
                Theme::Dark => continue,
            };
            browser.look_at(1280, height, theme).await;
            browser.open(&console.url(path)).await;
            browser.is_live().await;
            let picture = browser.screenshot().await;
            assert!(picture.len() < BYTES_MAX, "{name}: {} bytes", picture.len());
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/console");
            fs::write(folder.join(format!("{name}{ending}")), picture).unwrap();
        }
    }
}

/// Returns a server after the history of the fleets. The browser is signed in: the first visit
/// starts the sampling of the pools.
async fn busy(browser: &Browser) -> Console {
    let mut console = Console::start_with(Engine::Embedded, METRICS).await;
    console.sign_in(browser, &console.operator, "/").await;
    for minute in 0..END {
        for (start, end, pool, devices, capacity) in FLEETS {
            if start == minute {
                console.fleet_for(
                    &format!("{}m", end - start),
                    &[
                        &format!("--pool={pool}"),
                        &format!("--devices={devices}"),
                        &format!("--capacity={capacity}"),
                        "--report-interval=1s",
                        "--task-duration=3s..9s",
                        "--lease=15s",
                        "--late=3%",
                        "--silent=3%",
                        "--seed=7",
                    ],
                );
            }
        }
        sleep(Duration::from_secs(60)).await;
    }
    fill_others(&console).await;
    console
}
