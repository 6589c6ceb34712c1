//! Log lines have fields that people and programs can read.

use super::{code, sources};

/// Returns the fields of each macro of tracing, with the file.
fn log_lines() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, text) in sources() {
        let code = code(&text);
        for macro_name in ["trace!(", "debug!(", "info!(", "warn!(", "error!("] {
            for (at, _) in code.match_indices(&format!("tracing::{macro_name}")) {
                let rest = &code[at..];
                let end = rest.find("\n\n").unwrap_or(rest.len());
                let end = rest.find(");").map_or(end, |closed| closed.min(end));
                found.push((path.display().to_string(), rest[..end].to_owned()));
            }
        }
    }
    found
}

#[test]
fn j34_log_lines_show_no_values_as_rust_writes_them() {
    let lines = log_lines();
    assert!(lines.len() > 40, "{}", lines.len());
    for (path, line) in lines {
        let is_debug = |(at, _): (usize, &str)| {
            // `?value` of a field: after a parenthesis, a comma or an equals sign.
            let before = line[..at].trim_end().chars().last();
            matches!(before, Some('(' | ',' | '='))
        };
        assert!(!line.match_indices('?').any(is_debug), "{path}: name the fields of:\n{line}");
    }
}
