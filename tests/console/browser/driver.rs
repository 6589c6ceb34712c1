//! A chromedriver with one headless Chromium, which end with their test.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use fantoccini::{Client, ClientBuilder, wd::Capabilities};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};

use crate::support::process::{TempFolder, free_port, is_free};

/// Browsers at a time. Each takes about 300 MB.
const BROWSERS: usize = 2;
/// Time in which a browser must start, on a busy machine.
const START: Duration = Duration::from_secs(120);

/// Runs chromedriver until its input is closed, also by the end of the test's process. Chromium ends
/// with the pipe between them.
const KEEPER: &str = "\"$@\" & read _; kill -9 $!; wait $!";

/// The processes of a browser, and its profile. They end with this value.
pub struct Driver {
    keeper: Child,
    profile: TempFolder,
    _permit: SemaphorePermit<'static>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        // Child processes of Chromium may write into the folder until they notice its end.
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(20));
            if fs::remove_dir_all(self.profile.path()).is_ok() {
                break;
            }
        }
    }
}

/// Starts a browser. Returns `None` without Chromium; the test must end then.
pub async fn start() -> Option<(Driver, Client)> {
    static ROOM: Semaphore = Semaphore::const_new(BROWSERS);
    let (driver, chromium) = (program("chromedriver")?, program("chromium")?);
    let permit = ROOM.acquire().await.expect("it is never closed");
    let profile = TempFolder::new();
    fs::create_dir_all(profile.path()).unwrap();
    let port = free_port();
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "sh"]).arg(driver).arg(format!("--port={port}"));
    keeper.env("HOME", profile.path());
    let keeper =
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let driver = Driver { keeper, profile, _permit: permit };
    let capabilities = capabilities(&chromium, driver.profile.path());
    let listens = async {
        while is_free(port) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(START, listens).await.expect("chromedriver listens");
    let mut builder = ClientBuilder::new(HttpConnector::new());
    builder.capabilities(capabilities);
    let connected = timeout(START, builder.connect(&format!("http://127.0.0.1:{port}"))).await;
    let client = connected.expect("Chromium starts in time").expect("Chromium starts");
    Some((driver, client))
}

fn capabilities(chromium: &Path, profile: &Path) -> Capabilities {
    let arguments = [
        "--headless=new".to_owned(),
        // Tests run as root in containers, where Chromium's sandbox cannot start. The pages come
        // from the server under test.
        "--no-sandbox".to_owned(),
        "--remote-debugging-pipe".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-background-networking".to_owned(),
        "--force-device-scale-factor=1".to_owned(),
        "--window-size=1280,900".to_owned(),
        format!("--user-data-dir={}", profile.display()),
    ];
    let options = json!({ "binary": chromium, "args": arguments });
    let capabilities = [
        ("browserName", json!("chrome")),
        ("goog:loggingPrefs", json!({ "browser": "ALL" })),
        ("goog:chromeOptions", options),
    ];
    capabilities.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns a program on the PATH.
fn program(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|f| f.is_file());
    if found.is_none() {
        missing(name);
    }
    found
}

/// Reports that a test needs something that this machine does not have.
pub fn missing(what: &str) {
    assert!(
        env::var_os("TOLLGATE_TEST_REQUIRE_TOOLS").is_none(),
        "{what} is missing, and TOLLGATE_TEST_REQUIRE_TOOLS is set"
    );
    // Directly: the test harness hides the output of passing tests.
    let _ = writeln!(io::stderr(), "skipped: {what} is missing; ./tests/run.sh installs it");
}
