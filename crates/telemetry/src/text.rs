//! Numbers and names, formatted for people.

use std::{
    borrow::Cow,
    fmt::{self, Write},
    time::Duration,
};

/// Returns a duration in the most readable unit: `1.25 ms`, `250 ms`, `3.0 s`.
pub fn length(length: Duration) -> String {
    let millis = length.as_secs_f64() * 1000.0;
    match millis {
        millis if millis < 10.0 => format!("{millis:.2} ms"),
        millis if millis < 1000.0 => format!("{millis:.0} ms"),
        millis => format!("{:.1} s", millis / 1000.0),
    }
}

/// Returns a number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the start of a text, at most this many bytes.
pub fn start(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Escapes characters that a terminal interprets or a reader cannot see: control characters,
/// direction changes, line separators, zero-width characters. Each is written as `\u{202e}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false, braced)
}

/// Does the same, but keeps line feeds: for text of several lines.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_but(text, |char| char == '\n', braced)
}

/// Does the same, but keeps ESC: for text with terminal colors.
pub fn escaped_colors(text: &str) -> Cow<'_, str> {
    escaped_but(text, |char| char == '\u{1b}', braced)
}

/// Does the same for one line of JSON, with the escapes of JSON: `\u202e`.
pub fn escaped_json(text: &str) -> Cow<'_, str> {
    escaped_but(
        text,
        |_| false,
        |escaped, char| {
            let units = char.encode_utf16(&mut [0; 2]).to_vec();
            units.iter().try_for_each(|unit| write!(escaped, "\\u{unit:04x}"))
        },
    )
}

fn braced(escaped: &mut String, char: char) -> fmt::Result {
    write!(escaped, "\\u{{{:x}}}", u32::from(char))
}

fn escaped_but(
    text: &str,
    is_kept: fn(char) -> bool,
    escape: fn(&mut String, char) -> fmt::Result,
) -> Cow<'_, str> {
    let is_bad = |char| misleads(char) && !is_kept(char);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_bad(char) {
            // Writing to a String cannot fail.
            let _ = escape(&mut escaped, char);
        } else {
            escaped.push(char);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character acts on a terminal or changes how its neighbours are read.
fn misleads(char: char) -> bool {
    char.is_control()
        || matches!(char,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Invisible fillers.
            | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{3164}' | '\u{ffa0}'
            // Zero-width characters, direction marks and overrides, line and paragraph separators.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // Byte order mark, annotations, tags, musical format controls.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_are_readable() {
        let numbers = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let lengths = [57, 12_345, 1_500_000].map(|micros| length(Duration::from_micros(micros)));
        assert_eq!(lengths, ["0.06 ms", "12 ms", "1.5 s"]);
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!([0, 1, 2, 3, 9].map(|most| start("aéb", most)), ["", "a", "a", "aé", "aéb"]);
    }

    #[test]
    fn h18_control_and_invisible_characters_are_escaped() {
        assert!(matches!(escaped("camera-1 é 温度 🚪"), Cow::Borrowed(_)));
        let hostile = "a\u{202e}b\u{2028}c\u{200b}d\u{1b}[2Je\u{9b}f\u{feff}g\u{e0041}\nh\u{7f}";
        let plain = "a\\u{202e}b\\u{2028}c\\u{200b}d\\u{1b}[2Je\\u{9b}f\\u{feff}g\\u{e0041}";
        assert_eq!(escaped(hostile), format!("{plain}\\u{{a}}h\\u{{7f}}"));
        assert_eq!(escaped_lines(hostile), format!("{plain}\nh\\u{{7f}}"));
        assert_eq!(escaped_colors("\u{1b}[2m\u{202e}\n"), "\u{1b}[2m\\u{202e}\\u{a}");
    }

    #[test]
    fn h18_escaped_json_means_the_same() {
        let name = "a\u{202e}b\u{e0041}";
        let json = serde_json::to_string(name).expect("a text");
        assert_eq!(escaped_json(&json), r#""a\u202eb\udb40\udc41""#);
        let read: String = serde_json::from_str(&escaped_json(&json)).expect("JSON");
        assert_eq!(read, name);
    }
}
