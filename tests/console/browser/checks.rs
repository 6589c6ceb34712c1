//! Checks of the page that a browser shows: accessibility, Content-Security-Policy, requests to
//! other origins, width.

use std::{env, fs};

use serde_json::{Value, json};

use super::{Browser, missing};

/// Adds an event of each violation to a list of the window, from the first script on.
const RECORD: &str = "window.violations = [];
    document.addEventListener('securitypolicyviolation', event =>
        window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));";

/// Runs axe-core on the page.
const AXE: &str = "const done = arguments[arguments.length - 1];
    axe.run(document).then(
        result => done(result.violations.map(one =>
            `${one.id}: ${one.help}: ${one.nodes.map(node => node.html).join(' ')}`)),
        error => done([String(error)]));";

/// Returns the source of axe-core. Returns `None` without it.
pub fn axe() -> Option<String> {
    let Some(path) = env::var_os("TOLLGATE_TEST_AXE") else {
        missing("axe-core");
        return None;
    };
    Some(fs::read_to_string(path).unwrap())
}

impl Browser {
    /// Records violations of the Content-Security-Policy, on each page that is opened from now on.
    pub(super) async fn record_violations(&self) {
        let script = json!({ "source": RECORD });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", script).await;
    }

    /// Returns the faults of the page that axe-core finds, with the elements.
    pub async fn accessibility(&self) -> Vec<String> {
        self.run(&self.axe, &[]).await;
        strings(&self.run_async(AXE, &[]).await)
    }

    /// Returns the violations of the Content-Security-Policy on this page.
    pub async fn violations(&self) -> Vec<String> {
        strings(&self.run("return window.violations", &[]).await)
    }

    /// Returns the errors and warnings in the browser's log since the last call of this function.
    pub async fn log(&self) -> Vec<String> {
        let entries = self.command("se/log", json!({ "type": "browser" })).await;
        let entries = entries.as_array().unwrap().iter();
        let grave = entries.filter(|one| one["level"] == "SEVERE" || one["level"] == "WARNING");
        grave.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the addresses of other origins that this page loaded something from.
    pub async fn foreign(&self) -> Vec<String> {
        let script = "return performance.getEntriesByType('resource').map(one => one.name)
            .filter(name => new URL(name).origin !== location.origin)";
        strings(&self.run(script, &[]).await)
    }

    /// Returns the pixels by which the page is wider than its window.
    pub async fn overflow(&self) -> i64 {
        let script = "const page = document.documentElement;
            return page.scrollWidth - page.clientWidth";
        self.run(script, &[]).await.as_i64().unwrap()
    }

    /// Asserts that all checks find nothing on this page.
    pub async fn is_sound(&self, page: &str) {
        assert_eq!(self.accessibility().await, [""; 0], "axe-core on {page}");
        assert_eq!(self.violations().await, [""; 0], "Content-Security-Policy on {page}");
        assert_eq!(self.foreign().await, [""; 0], "other origins on {page}");
        assert_eq!(self.overflow().await, 0, "pixels that {page} is too wide");
        assert_eq!(self.log().await, [""; 0], "the browser's log of {page}");
    }
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    list.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}
