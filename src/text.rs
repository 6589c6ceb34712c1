//! Numbers as people read them.

use std::time::Duration;

/// A length of time in the unit that reads best.
pub(crate) fn length(length: Duration) -> String {
    let millis = length.as_secs_f64() * 1000.0;
    match millis {
        millis if millis < 10.0 => format!("{millis:.2} ms"),
        millis if millis < 1000.0 => format!("{millis:.0} ms"),
        millis => format!("{:.1} s", millis / 1000.0),
    }
}

/// A number with a comma after each three digits.
pub(crate) fn grouped(number: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_read_well() {
        let numbers = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let lengths = [57, 12_345, 1_500_000].map(|micros| length(Duration::from_micros(micros)));
        assert_eq!(lengths, ["0.06 ms", "12 ms", "1.5 s"]);
    }
}
