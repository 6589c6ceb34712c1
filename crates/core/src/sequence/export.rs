//! Export and import of a sequence: its values in Redis as entries, and back.

use super::{
    Counter, Range,
    allocation::decimal,
    record::{Head, REPLAY},
};
use crate::{
    Call, Reply,
    error::Error,
    record::{
        Entry, Export, Exported, Page, Parts, Source, Unreadable, decode, split_part,
        unknown_letter, unknown_part,
    },
    script::{self, Script},
    time::Timestamp,
};

/// The source of the values; an answer has [`REPLAY`].
const COUNTER: u8 = b'c';

/// A persisted answer.
type Answer = (Timestamp, (Range, bool));

impl Exported for Counter {
    const EXPORT: &'static Script = &script::sequence::EXPORT;
    const IMPORT: &'static Script = &script::sequence::IMPORT;

    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)> {
        let source = match part.strip_prefix(b"replay:") {
            Some(request) => Source::new(REPLAY, request),
            None if part == b"counter" => Source::new(COUNTER, &[]),
            None => return None,
        };
        Some((tag.to_vec(), source))
    }

    /// For the counter, the second key has an empty name and is not read.
    fn encode_export(export: &Export<Counter>, call: &mut Call) {
        call.key(&[b"counter"]);
        call.key(&[b"replay:", &export.source.name]);
        call.bytes(&[&[export.source.letter]]);
    }

    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error> {
        match letter {
            [] => {
                let head: Head = (Some((decimal(reply)?, Timestamp(decimal(reply)?))), None);
                Ok(Entry::new(&[], &head))
            }
            [REPLAY] => {
                let (last, step, count) = (decimal(reply)?, decimal(reply)?, decimal(reply)?);
                let (floor_applied, forget) = (reply.number()? != 0, Timestamp(reply.number()?));
                let answer: Answer = (forget, (Range { last, step, count }, floor_applied));
                Ok(Entry::new(&[&[REPLAY]], &answer))
            }
            _ => unknown_letter(letter),
        }
    }

    /// Raises the last value to the highest value of an answer. It may have been allocated after
    /// the counter was read.
    fn reconcile(entries: &mut Vec<Entry>) {
        let answers = entries.iter().filter_map(|entry| entry.decode::<Answer>(REPLAY));
        let Some(given) = answers.map(|(_, (range, _))| range.last).max() else { return };
        for entry in entries {
            if let Some((Some((last, time)), marks)) = entry.decode::<Head>(0) {
                entry.set(&(Some((last.max(given), time)), marks));
            }
        }
    }

    fn page(&self, export: &Export<Counter>, now: Timestamp) -> Page {
        let Source { letter, name } = &export.source;
        if *letter == REPLAY {
            let answer = self.replays.entry(name, now);
            return Page::last(answer.map(|answer| Entry::new(&[&[REPLAY]], answer)));
        }
        let head: Head = (self.last, None);
        Page::last(self.last.map(|_| Entry::new(&[], &head)))
    }

    /// Both kinds of entry have the same six numbers. Numbers that a kind does not use are 0.
    fn import_arguments(_: &[u8], part: &[u8], value: &[u8]) -> Result<Option<Parts>, Unreadable> {
        let (letter, request) = split_part(part);
        let parts = Parts::new([b"counter".to_vec(), [b"replay:", request].concat()]);
        match letter {
            0 => {
                let (last, _): Head = decode(value)?;
                Ok(last.map(|(last, time)| {
                    parts.bytes(&[COUNTER]).numbers([last, time.0, 0, 0, 0, 0])
                }))
            }
            REPLAY => {
                let (forget, (range, floor_applied)): Answer = decode(value)?;
                let Range { last, step, count } = range;
                let numbers = [last, 0, step, count, floor_applied.into(), forget.0];
                Ok(Some(parts.bytes(&[REPLAY]).numbers(numbers)))
            }
            _ => unknown_part(part),
        }
    }

    fn import(&mut self, part: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable> {
        match split_part(part) {
            (0, _) => (self.last, _) = decode::<Head>(value)?,
            (_, request) => {
                let (forget, answer): Answer = decode(value)?;
                if forget > now {
                    self.replays.insert(request, answer, forget, now);
                }
            }
        }
        Ok(())
    }
}
