//! The report of a sale.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{buyer::Manner, tally::Tally};
use crate::{
    cli::fleet::report::Quantiles,
    decision::text::{grouped, length},
    stock::Stock,
};

/// The results of a sale; `Display` prints the report.
#[derive(Debug, Clone, Default)]
pub(in crate::cli::fleet) struct Report {
    /// Describes the sale.
    title: String,
    rows: Vec<(&'static str, Option<u64>)>,
    failed: BTreeMap<&'static str, u64>,
    latencies: Quantiles,
    items: u64,
    bought: u64,
    /// The violation, if there is one.
    fault: Option<&'static str>,
    length: Duration,
    sold_out: Option<Duration>,
}

impl Report {
    /// Reads the counters. `left` is the stock at the end, if it could be read.
    pub(super) fn new(kinds: &[(Manner, bool)], tally: &Tally, left: Option<Stock>) -> Report {
        let of = |manner| Some(kinds.iter().filter(|kind| kind.0 == manner).count() as u64);
        let twice = kinds.iter().filter(|kind| kind.1).count() as u64;
        let rows = vec![
            ("Buyers", Some(kinds.len() as u64)),
            ("  paying", of(Manner::Pays)),
            ("  paying late", of(Manner::PaysLate)),
            ("  never paying", of(Manner::NeverPays)),
            ("  cancelling", of(Manner::Cancels)),
            ("  calling twice", Some(twice)),
            ("Answers to ReserveStock", None),
            ("  reserved", Some(tally.reserved.get())),
            ("  replayed", Some(tally.replayed.get())),
            ("  short", Some(tally.short.get())),
            ("  refused otherwise", Some(tally.refused.get())),
            ("Answers to ConfirmReservation", None),
            ("  confirmed", Some(tally.confirmed.get())),
            ("  retaken", Some(tally.retaken.get())),
            ("  already confirmed", Some(tally.already_confirmed.get())),
            ("  expired", Some(tally.expired.get())),
            ("  refused otherwise", Some(tally.unpayable.get())),
            ("Answers to CancelReservation", None),
            ("  cancelled", Some(tally.cancelled.get())),
            ("  otherwise", Some(tally.uncancelled.get())),
            ("Calls", Some(tally.calls.get())),
        ];
        Report {
            rows,
            failed: tally.failed.by_code(),
            latencies: Quantiles::of(&tally.latencies),
            items: tally.items(),
            bought: tally.bought.get(),
            fault: fault(tally, left),
            ..Report::default()
        }
    }

    /// Sets the title.
    pub(super) fn at(self, title: String) -> Report {
        Report { title, ..self }
    }

    /// Adds the duration and the number of calls.
    pub(super) fn took(
        mut self,
        length: Duration,
        sold_out: Option<Duration>,
        calls: u64,
    ) -> Report {
        let seconds = length.as_secs_f64();
        let rate = if seconds > 0.0 { calls as f64 / seconds } else { 0.0 };
        self.rows.push(("  per second", Some(rate.round() as u64)));
        self.rows.push(("  failed", Some(self.failed.values().sum())));
        Report { length, sold_out, ..self }
    }

    /// Whether the sale did not oversell and no order got an item twice.
    pub(in crate::cli::fleet) fn stock_held(&self) -> bool {
        self.fault.is_none()
    }
}

/// Returns the violation of a sale, from the buyers' counts and the stock at the end.
fn fault(tally: &Tally, left: Option<Stock>) -> Option<&'static str> {
    let (bought, unsure) = (tally.bought.get(), tally.unsure.get());
    if bought > tally.items() || left.is_some_and(|left| left.sold > tally.items()) {
        return Some("OVERSOLD");
    } else if tally.doubled.get() > 0 {
        return Some("AN ITEM WENT TO ONE ORDER TWICE");
    }
    let told = |left: Stock| (bought..=bought + unsure).contains(&left.sold);
    let adds_up = left.is_none_or(|left| tally.adds_up(left) && told(left));
    (tally.astray.get() > 0 || !adds_up).then_some("THE STOCK DOES NOT ADD UP")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in &self.rows {
            let number = number.map(grouped).unwrap_or_default();
            writeln!(f, "{}", format!("{name:<24}{number:>12}").trim_end())?;
        }
        for (code, count) in &self.failed {
            writeln!(f, "    {code:<20}{:>12}", grouped(*count))?;
        }
        writeln!(f, "Call latency            {}\n", self.latencies)?;

        writeln!(f, "{}", self.title)?;
        match self.sold_out {
            Some(after) => write!(f, "Sold out after {}, over", length(after))?,
            None => write!(f, "Not sold out, over")?,
        }
        writeln!(f, " after {}", length(self.length))?;
        let (bought, items) = (grouped(self.bought), grouped(self.items));
        let held = self.fault.unwrap_or("none twice, never oversold");
        writeln!(f, "Sold {bought} of {items}: {held}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::monotonic;

    fn tally(bought: u64) -> Tally {
        let tally = Tally::new(50);
        (0..bought).for_each(|_| tally.buys(monotonic()));
        tally.calls.add();
        tally.failed.add("UNAVAILABLE");
        tally
    }

    fn last_line(tally: &Tally, left: Option<Stock>) -> (String, bool) {
        let report = Report::new(&[], tally, left);
        let text = report.to_string();
        (text.lines().last().unwrap_or_default().to_owned(), report.stock_held())
    }

    #[test]
    fn the_report_tells_all_that_was_counted() {
        let kinds = [(Manner::Pays, true), (Manner::Cancels, false), (Manner::Pays, false)];
        let sold = Stock { on_hand: 0, reserved: 0, sold: 50 };
        let text = Report::new(&kinds, &tally(50), Some(sold))
            .at("Sale of `sale/1` at http://127.0.0.1:50051, seed 42".to_owned())
            .took(Duration::from_secs(4), Some(Duration::from_millis(3210)), 4321)
            .to_string();
        for line in [
            "Buyers                             3",
            "  paying                           2",
            "  cancelling                       1",
            "  calling twice                    1",
            "Answers to ReserveStock",
            "Calls                              1",
            "  per second                   1,080",
            "  failed                           1",
            "    UNAVAILABLE                    1",
            "Call latency            none",
            "Sale of `sale/1` at http://127.0.0.1:50051, seed 42",
            "Sold out after 3.2 s, over after 4.0 s",
            "Sold 50 of 50: none twice, never oversold",
        ] {
            assert!(text.lines().any(|is| is == line), "{line:?} is not in:\n{text}");
        }
    }

    #[test]
    fn one_item_too_many_is_seen() {
        let stock = |on_hand, sold| Some(Stock { on_hand, reserved: 0, sold });
        let good = "Sold 49 of 50: none twice, never oversold";
        assert_eq!(last_line(&tally(49), stock(1, 49)), (good.to_owned(), true));
        assert_eq!(last_line(&tally(49), None), (good.to_owned(), true));
        for (tally, left, part) in [
            (tally(51), stock(0, 50), "Sold 51 of 50: OVERSOLD"),
            (tally(50), stock(0, 51), "OVERSOLD"),
            (tally(49), stock(0, 50), "DOES NOT ADD UP"),
            (tally(49), stock(2, 49), "DOES NOT ADD UP"),
            (tally(49), stock(2, 48), "DOES NOT ADD UP"),
        ] {
            let (text, held) = last_line(&tally, left);
            assert!(text.contains(part) && !held, "{part}: {text}");
        }
        // One buyer paid but got no answer.
        let unsure = tally(49);
        unsure.unsure.add();
        assert!(last_line(&unsure, stock(0, 50)).1);
        let doubled = tally(49);
        doubled.doubled.add();
        assert!(last_line(&doubled, stock(1, 49)).0.contains("TWICE"));
        let astray = tally(49);
        astray.stock(Stock { on_hand: 2, reserved: 1, sold: 49 });
        assert!(last_line(&astray, stock(1, 49)).0.contains("DOES NOT ADD UP"));
    }
}
