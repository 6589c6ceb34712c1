//! A browser as a test uses it: pages, elements, keys, appearance.

mod checks;
mod driver;

use std::{collections::HashMap, time::Duration};

use fantoccini::{
    Client, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    elements::Element,
    wd::{TimeoutConfiguration, WebDriverCompatibleCommand},
};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use driver::Driver;
pub use driver::missing;

/// Time in which a page must show what a test waits for.
const WAIT: Duration = Duration::from_secs(60);

/// Time limit of a script and of the load of a page.
const SLOW: Duration = Duration::from_secs(120);

/// The colours that the system prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub const ALL: [Theme; 2] = [Theme::Light, Theme::Dark];

    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
}

/// A headless Chromium with one window and its own empty profile.
pub struct Browser {
    pub client: Client,
    axe: String,
    _driver: Driver,
}

impl Browser {
    /// Starts a browser. Returns `None` if a tool is missing; the test must end then.
    pub async fn start() -> Option<Browser> {
        let axe = checks::axe()?;
        let (driver, client) = driver::start().await?;
        let limits = TimeoutConfiguration::new(Some(SLOW), Some(SLOW), None);
        client.update_timeouts(limits).await.unwrap();
        let browser = Browser { client, axe, _driver: driver };
        browser.record_violations().await;
        Some(browser)
    }

    /// Opens a page and waits until it is loaded.
    pub async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Waits until a page of the console is live, if it has a stream.
    pub async fn is_live(&self) {
        let script = "return document.body.dataset.live ? document.body.dataset.state : 'live'";
        self.until("live", async || self.run(script, &[]).await == "live").await;
    }

    /// Returns the first element of a selector, as soon as there is one. A selector that begins
    /// with `//` is an XPath, any other is of CSS.
    pub async fn find(&self, selector: &str) -> Element {
        let wait = self.client.wait().at_most(WAIT).every(Duration::from_millis(50));
        let found = wait.for_element(locator(selector)).await;
        match found {
            Ok(element) => element,
            Err(error) => panic!("{selector}: {error}\n{}", self.text().await),
        }
    }

    /// Returns the number of elements of a selector.
    pub async fn count(&self, selector: &str) -> usize {
        self.client.find_all(locator(selector)).await.unwrap().len()
    }

    /// Clicks an element. The page can replace it at any time, so a click is tried again.
    pub async fn click(&self, selector: &str) {
        self.until(selector, async || {
            let found = self.client.find(locator(selector)).await;
            match found {
                Ok(element) => element.click().await.is_ok(),
                Err(_) => false,
            }
        })
        .await;
    }

    /// Replaces the text of an input.
    pub async fn fill(&self, selector: &str, text: &str) {
        let input = self.find(selector).await;
        input.clear().await.unwrap();
        input.send_keys(text).await.unwrap();
    }

    /// Returns the terms of a part with their values.
    pub async fn facts(&self, part: &str) -> HashMap<String, String> {
        let script = "return [...document.querySelectorAll(`#${arguments[0]} .facts div`)].map(
            fact => [fact.querySelector('dt').innerText, fact.querySelector('dd').innerText])";
        let pairs = self.run(script, &[json!(part)]).await;
        serde_json::from_value::<Vec<(String, String)>>(pairs).unwrap().into_iter().collect()
    }

    /// Returns the rows of the table in a part, with the text of their cells.
    pub async fn rows(&self, part: &str) -> Vec<Vec<String>> {
        let script = "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(
            row => [...row.cells].map(cell => cell.innerText.trim()))";
        serde_json::from_value(self.run(script, &[json!(part)]).await).unwrap()
    }

    /// Returns the visible text of the page.
    pub async fn text(&self) -> String {
        let text = self.run("return document.body ? document.body.innerText : ''", &[]).await;
        text.as_str().unwrap().to_owned()
    }

    /// Runs a script in the page. Returns its value.
    pub async fn run(&self, script: &str, arguments: &[Value]) -> Value {
        let value = self.client.execute(script, arguments.to_vec()).await;
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script, which calls its last argument with its value.
    pub async fn run_async(&self, script: &str, arguments: &[Value]) -> Value {
        let value = self.client.execute_async(script, arguments.to_vec()).await;
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until the condition holds.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let wait = async {
            while !holds().await {
                sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(WAIT, wait).await.is_err() {
            panic!("not within {WAIT:?}: {what}\n{}", self.text().await);
        }
    }

    /// Waits until the visible text contains this.
    pub async fn shows(&self, text: &str) {
        self.until(text, async || self.text().await.contains(text)).await;
    }

    /// Waits until the page says that the last action succeeded, with this message.
    pub async fn done(&self, text: &str) {
        self.until(text, async || {
            let message = self.client.find(Locator::Css(".message.done")).await;
            let Ok(message) = message else { return false };
            message.text().await.is_ok_and(|message| message.contains(text))
        })
        .await;
    }

    /// Opens the form of an action, and sends it with these values of its fields.
    pub async fn act(&self, details: &str, fields: &[(&str, &str)], button: &str) {
        self.click(&format!("{details} summary")).await;
        for (name, value) in fields {
            self.fill(&format!("{details} input[name={name}]"), value).await;
        }
        self.click(&format!("{details} button[value={button}]")).await;
    }

    /// Presses and releases one key, with the WebDriver value of the key.
    pub async fn press(&self, key: char) {
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value: key })
            .then(KeyAction::Up { value: key });
        self.client.perform_actions(keys).await.unwrap();
    }

    /// Sets the width of the page and the preferred colours.
    pub async fn look(&self, width: u32, theme: Theme) {
        self.look_at(width, 720, theme).await;
    }

    /// Sets the width and the height of the window, and the theme.
    pub async fn look_at(&self, width: u32, height: u32, theme: Theme) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let features = json!([{ "name": "prefers-color-scheme", "value": theme.name() }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Returns a picture of the visible part of the page, PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// Sends a command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.command("goog/cdp/execute", body).await
    }

    /// Sends a command of chromedriver that WebDriver does not have.
    async fn command(&self, path: &'static str, body: Value) -> Value {
        let answer = self.client.issue_cmd(Vendor { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

fn locator(selector: &str) -> Locator<'_> {
    if selector.starts_with("//") { Locator::XPath(selector) } else { Locator::Css(selector) }
}

/// A command of chromedriver.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
