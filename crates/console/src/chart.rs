//! Charts of the last 15 minutes, as SVG without a script.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use super::history::{STEP, STEPS};

/// The size in SVG units. The style stretches the chart to fill its element.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// A chart: lines over the last 15 minutes.
#[derive(Debug)]
pub(super) struct Chart {
    /// The title, without markup.
    pub(super) title: &'static str,
    pub(super) lines: Vec<ChartLine>,
}

/// A line of a chart.
#[derive(Debug)]
pub(super) struct ChartLine {
    /// The name in the legend, without markup.
    pub(super) name: &'static str,
    /// The class for its colour and pattern: `one`, `two` or `limit`.
    pub(super) class: &'static str,
    /// The values of the steps, the newest last; `None` where unknown.
    pub(super) values: Vec<Option<f64>>,
}

impl HtmlSafe for Chart {}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chart { title, lines } = self;
        let values = lines.iter().flat_map(|line| line.values.iter().flatten());
        let top = nice(values.copied().fold(0.0, f64::max));
        write!(f, "<figure class=\"chart\"><figcaption>{title}")?;
        for line in lines {
            let (name, class) = (line.name, line.class);
            write!(f, " <span class=\"key {class}\">{name} <b>{}</b></span>", line.last())?;
        }
        f.write_str("</figcaption><div class=\"axis\" aria-hidden=\"true\">")?;
        for fraction in [1.0, 0.5, 0.0] {
            write!(f, "<span>{}</span>", number(top * fraction))?;
        }
        write!(
            f,
            "</div><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{title}, last 15 minutes\">"
        )?;
        for y in [0.0, HEIGHT / 2.0, HEIGHT] {
            write!(f, "<path class=\"grid\" d=\"M0 {y}H{WIDTH}\"/>")?;
        }
        lines.iter().try_for_each(|line| line.draw(f, top))?;
        f.write_str(
            "</svg><div class=\"times\" aria-hidden=\"true\"><span>−15 min</span><span>−10 min</span>\
             <span>−5 min</span><span>now</span></div></figure>",
        )
    }
}

impl ChartLine {
    /// Returns the last known value as text, since the newest step may still be unknown.
    fn last(&self) -> String {
        let last = self.values.iter().rev().take(2).flatten().next();
        last.map_or("–".to_owned(), |value| number(*value))
    }

    fn draw(&self, f: &mut fmt::Formatter<'_>, top: f64) -> fmt::Result {
        debug_assert!(self.values.len() <= STEPS && STEP * STEPS as u64 == 15 * 60);
        let first = STEPS - self.values.len().min(STEPS);
        let (mut path, mut is_open) = (String::new(), false);
        for (index, value) in self.values.iter().enumerate() {
            let Some(value) = value else {
                is_open = false;
                continue;
            };
            let x = WIDTH * (first + index) as f64 / (STEPS - 1) as f64;
            let y = HEIGHT - value / top * HEIGHT;
            let command = if is_open { 'L' } else { 'M' };
            write!(path, "{command}{x:.1} {y:.1}")?;
            // A value between unknown ones is drawn as a dot.
            if !is_open {
                path.push_str("h.1");
            }
            is_open = true;
        }
        write!(f, "<path class=\"line {}\" d=\"{path}\"/>", self.class)
    }
}

/// Returns the top of an axis that fits this value: 1, 2 or 5 times a power of ten.
fn nice(largest: f64) -> f64 {
    if largest <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(largest.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power);
    steps.into_iter().find(|step| *step >= largest).unwrap_or(largest)
}

/// Formats a number, with at most four characters below a million.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e4 => format!("{:.0}k", value / 1e3),
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_gaps_and_their_last_value() {
        let line =
            ChartLine { name: "calls", class: "one", values: vec![Some(1.0), None, Some(40.0)] };
        let chart = Chart { title: "Calls", lines: vec![line] }.to_string();
        assert!(chart.contains("<b>40</b>") && chart.contains("<span>50</span>"), "{chart}");
        let (_, path) = chart.split_once("class=\"line one\" d=\"").unwrap();
        assert_eq!(path.split('"').next().unwrap().matches('M').count(), 2, "{chart}");
        assert!(!chart.contains("style"), "{chart}");
        let empty = Chart { title: "Calls", lines: Vec::new() }.to_string();
        assert!(empty.contains("role=\"img\""));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 1.0, 1.5, 7.0, 60.0, 100.0, 101.0].map(nice),
            [1.0, 1.0, 2.0, 10.0, 100.0, 100.0, 200.0]
        );
        let texts = [0.0, 0.25, 7.5, 999.6, 12_345.0, 2_500_000.0].map(number);
        assert_eq!(texts, ["0", "0.2", "7.5", "1000", "12k", "2.5M"]);
    }
}
