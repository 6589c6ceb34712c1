//! The style and the script of the console, compiled into the program.
//!
//! Their paths contain a digest of the contents, so that browsers can cache them for a year.

use std::sync::LazyLock;

use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, HeaderValue},
};
use ring::digest::{SHA256, digest};

use tollgate_status::page::{self as answer, PageBody};

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path("css", STYLE));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| path("js", SCRIPT));

fn path(ending: &str, contents: &str) -> String {
    let digest = digest(&SHA256, contents.as_bytes());
    let start: String = digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/console-{start}.{ending}")
}

/// Returns the path of the style.
pub(super) fn style() -> &'static str {
    &STYLE_PATH
}

/// Returns the path of the script.
pub(super) fn script() -> &'static str {
    &SCRIPT_PATH
}

/// Returns the asset with this path.
pub(super) fn find(path: &str) -> Option<Response<PageBody>> {
    let (contents, content_type) = match path {
        path if path == style() => (STYLE, "text/css; charset=utf-8"),
        path if path == script() => (SCRIPT, "text/javascript; charset=utf-8"),
        "/favicon.ico" | "/assets/icon.svg" => (ICON, "image/svg+xml"),
        _ => return None,
    };
    let content_type = HeaderValue::from_static(content_type);
    let mut response = answer::full(StatusCode::OK, content_type, contents);
    let age = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, age);
    Some(answer::secured(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small_and_loads_nothing_from_elsewhere() {
        assert!(SCRIPT.len() < 30 * 1024, "{}", SCRIPT.len());
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("http://") && !text.contains("https://"));
        }
    }
}
