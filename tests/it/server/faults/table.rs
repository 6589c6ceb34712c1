//! The table of faults in `docs/reliability.md`: each fault test writes one row.
//!
//! With `TOLLGATE_TEST_BLESS` the rows of this run replace those in the file. Without it each fault
//! must have a row, whatever its numbers.

use std::{
    collections::BTreeMap,
    fs,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::load::{CAPACITY, DEADLINE, History};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reliability.md");
const BEGIN: &str = "<!-- faults: begin -->";
const END: &str = "<!-- faults: end -->";
const HEAD: &str = "| fault | calls that failed | how | longest call | recovered after | cap held |\n\
    |---|---|---|---|---|---|\n";

/// Serializes access to the file.
static ROWS: Mutex<()> = Mutex::new(());

/// The effect of a fault on callers. `healed` is the instant at which the fault ended.
pub struct Row<'a> {
    pub fault: &'a str,
    pub history: &'a History,
    pub healed: Instant,
}

impl Row<'_> {
    /// Checks that the capacity held and that no call hung, and writes the row.
    pub fn write(&self) {
        let Row { fault, history, healed } = self;
        let most = history.most_held();
        assert!(most <= CAPACITY, "{fault}: {most} tasks ran at once, of {CAPACITY}");
        let longest = history.seen.iter().map(|seen| seen.end - seen.start).max().unwrap();
        // A busy machine adds far less: a call this long was not ended by its deadline.
        assert!(longest < DEADLINE + Duration::from_secs(10), "{fault}: a call took {longest:?}");
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for seen in history.failed() {
            *codes.entry(format!("{:?}", seen.failed.unwrap())).or_default() += 1;
        }
        let how = codes.iter().map(|(code, count)| format!("{count} {code}"));
        let how = how.collect::<Vec<_>>().join(", ");
        let answered = history.seen.iter().filter(|seen| seen.failed.is_none());
        let back = answered.map(|seen| seen.end).filter(|end| end > healed).min();
        let back = back.expect("calls are answered again") - *healed;
        let failed = history.failed().count();
        let row = format!(
            "| {fault} | {failed} of {} | {} | {} ms | {} | {most} of {CAPACITY} at once |",
            history.seen.len(),
            if failed == 0 { "–" } else { &how },
            longest.as_millis(),
            if failed == 0 { "–".to_owned() } else { format!("{} ms", back.as_millis()) },
        );
        keep(fault, &row);
    }
}

fn keep(fault: &str, row: &str) {
    let _one = ROWS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{row}");
    let text = fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table has its place");
    let (table, after) = rest.split_once(END).expect("the table ends");
    let start = format!("| {fault} |");
    let has_row = table.lines().any(|line| line.starts_with(&start));
    if std::env::var_os("TOLLGATE_TEST_BLESS").is_none() {
        assert!(has_row, "{FILE} has no row of `{fault}`; TOLLGATE_TEST_BLESS=1 writes it");
        return;
    }
    let others = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let others = others.filter(|line| line.starts_with('|') && !line.starts_with(&start));
    let mut rows: Vec<&str> = others.chain([row]).collect();
    rows.sort_unstable();
    let text = format!("{before}{BEGIN}\n{HEAD}{}\n{END}{after}", rows.join("\n"));
    fs::write(FILE, text).unwrap();
}
