//! Page tokens: encoded cursors of listings, opaque to callers. A token carries the namespace of its
//! listing, and is valid in no other.
//!
//! A token is base64url of `NAMESPACE END NUMBER SEPARATOR BYTES`. It is not signed: a forged token
//! is another position in a listing that its caller may read anyway. Servers store no tokens, so a
//! token never expires, and works on every server.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;

use super::fields::Fields;
use tollgate_core::{
    admission::{Lease, LeaseCursor, TaskCursor},
    names::{NAME_BYTES_MAX, Name, Namespace, SEPARATOR},
    rate::BanCursor,
    time::Timestamp,
};
use tollgate_engine::{NameCursor, PartitionCursor};

/// A cursor that fits into a page token: a number and bytes.
pub(super) trait Cursor: Sized {
    /// Returns the number and the bytes of the cursor.
    fn parts(&self) -> (u64, Cow<'_, [u8]>);
    /// Builds a cursor from its parts; `None` if they are not of this kind of cursor.
    fn of(number: u64, bytes: &[u8]) -> Option<Self>;
}

/// Returns the token of the page after `cursor`; empty if there is no further page.
pub(super) fn encode(namespace: &Namespace, cursor: Option<&impl Cursor>) -> Bytes {
    let Some((number, bytes)) = cursor.map(Cursor::parts) else { return Bytes::new() };
    let number = number.to_string();
    let text = [namespace.prefix(), number.as_bytes(), &[SEPARATOR], &*bytes].concat();
    URL_SAFE_NO_PAD.encode(text).into()
}

/// Parses the field `page_token`; `None` for the first page.
pub(super) fn decode<C: Cursor>(fields: &mut Fields, token: &[u8]) -> Option<C> {
    if token.is_empty() {
        return None;
    }
    let namespace = fields.namespace();
    let cursor = URL_SAFE_NO_PAD.decode(token).ok().and_then(|text| {
        // In the default namespace, a namespace in the token fails as part of the number.
        let text = text.strip_prefix(namespace.prefix())?;
        let end = text.iter().position(|byte| *byte == SEPARATOR)?;
        let number = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
        C::of(number, &text[end + 1..])
    });
    if cursor.is_none() {
        fields.violation("page_token", "must be a next_page_token of this listing");
    }
    cursor
}

/// The largest number in a cursor that scripts compute with: `TIME_MAX` of `lua/lib/prelude.lua`.
const NUMBER_MAX: u64 = (1 << 52) - 1;

/// Splits numbers from the device and the task behind them; `None` if a part is missing.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (mut numbers, mut rest) = ([0; N], bytes);
    for number in &mut numbers {
        let end = rest.iter().position(|byte| *byte == SEPARATOR)?;
        let text = str::from_utf8(&rest[..end]).ok()?;
        *number = text.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
        rest = &rest[end + 1..];
    }
    let separators = rest.iter().filter(|byte| **byte == SEPARATOR).count();
    (separators == 1).then_some((numbers, rest))
}

impl Cursor for LeaseCursor {
    fn parts(&self) -> (u64, Cow<'_, [u8]>) {
        let Lease { token, grant, expire } = self.lease;
        let (grant, expire, attempt) = (grant.0, expire.0, self.attempt);
        let numbers = format!("{token}\x1f{grant}\x1f{expire}\x1f{attempt}\x1f");
        (self.slot_end.0, [numbers.as_bytes(), &self.member].concat().into())
    }

    fn of(number: u64, bytes: &[u8]) -> Option<LeaseCursor> {
        let ([token, grant, expire, attempt], member) = numbers(bytes)?;
        Some(LeaseCursor {
            slot_end: Timestamp(number),
            member: member.to_vec(),
            lease: Lease { token, grant: Timestamp(grant), expire: Timestamp(expire) },
            attempt: attempt.try_into().ok()?,
        })
    }
}

impl Cursor for TaskCursor {
    fn parts(&self) -> (u64, Cow<'_, [u8]>) {
        let at = format!("{}\x1f", self.at.0);
        (self.due, [at.as_bytes(), &self.member].concat().into())
    }

    fn of(number: u64, bytes: &[u8]) -> Option<TaskCursor> {
        let ([at], member) = numbers(bytes)?;
        Some(TaskCursor { due: number, member: member.to_vec(), at: Timestamp(at) })
    }
}

impl Cursor for BanCursor {
    fn parts(&self) -> (u64, Cow<'_, [u8]>) {
        (self.until.0, (&*self.key).into())
    }

    fn of(number: u64, bytes: &[u8]) -> Option<BanCursor> {
        let key = Name::parse(Bytes::copy_from_slice(bytes)).ok()?;
        Some(BanCursor { until: Timestamp(number), key: key.as_bytes().to_vec() })
    }
}

impl Cursor for PartitionCursor {
    fn parts(&self) -> (u64, Cow<'_, [u8]>) {
        (self.noted, self.name.local().into())
    }

    fn of(number: u64, bytes: &[u8]) -> Option<PartitionCursor> {
        let name = Name::parse(Bytes::copy_from_slice(bytes)).ok()?;
        Some(PartitionCursor { noted: number, name })
    }
}

/// The first byte of a [`NameCursor`]. No name begins with it, so tokens of other listings are
/// refused.
const NAME_CURSOR: u8 = 0x02;
/// The most hash slots of a Redis Cluster, and more than the embedded engine has shards.
const PLACES: u16 = 16_384;
/// The longest partition without its namespace: a sequence with its calendar.
const PARTITION_BYTES_MAX: usize = NAME_BYTES_MAX + 64;

impl Cursor for NameCursor {
    fn parts(&self) -> (u64, Cow<'_, [u8]>) {
        let NameCursor { process, place, position, after } = self;
        let bytes =
            [&[NAME_CURSOR][..], &place.to_be_bytes(), &process.to_be_bytes(), after].concat();
        (*position, bytes.into())
    }

    fn of(number: u64, bytes: &[u8]) -> Option<NameCursor> {
        let (place, rest) = bytes.strip_prefix(&[NAME_CURSOR])?.split_first_chunk()?;
        let (process, after) = rest.split_first_chunk()?;
        let place = u16::from_be_bytes(*place);
        let is_valid = place < PLACES && after.len() <= PARTITION_BYTES_MAX;
        is_valid.then(|| NameCursor {
            process: u64::from_be_bytes(*process),
            place,
            position: number,
            after: after.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scope::Scope, *};

    fn namespace(text: &str) -> Namespace {
        Namespace::parse(text.as_bytes()).unwrap()
    }

    fn read<C: Cursor>(of: &str, token: &[u8]) -> Option<C> {
        let mut fields = Fields::new(Scope::new("a caller", namespace(of), None));
        let cursor = decode(&mut fields, token);
        // Every token that is no cursor is a violation.
        assert_eq!(cursor.is_none(), fields.finish(Some(())).is_err());
        cursor
    }

    #[test]
    fn a_token_is_valid_in_its_namespace_only() {
        let name = Name::parse(Bytes::from_static(b"5")).unwrap();
        let ban = BanCursor { until: Timestamp(7), key: b"5".to_vec() };
        for of in ["", "a", "acme", "7"] {
            let cursor = PartitionCursor { noted: 7, name: name.within(&namespace(of)) };
            let token = encode(&namespace(of), Some(&cursor));
            let ban_token = encode(&namespace(of), Some(&ban));
            // The name of a caller's partition, which it puts into its namespace again.
            let names = NameCursor {
                process: u64::MAX,
                place: 16_383,
                position: u64::MAX - 1,
                after: b"x\x1fday/999999".to_vec(),
            };
            let names_token = encode(&namespace(of), Some(&names));
            assert_eq!(read(of, &names_token), Some(names));
            assert_eq!(read::<PartitionCursor>(of, &names_token), None);
            assert_eq!(read::<NameCursor>(of, &token), None);
            let own: PartitionCursor = read(of, &token).unwrap();
            assert_eq!(own.within(&namespace(of)), cursor);
            assert_eq!(read(of, &ban_token), Some(ban.clone()));
            for other in ["", "a", "acme", "acm", "acme2", "7"] {
                if other != of {
                    assert_eq!(read::<PartitionCursor>(other, &token), None, "{of} {other}");
                    assert_eq!(read::<BanCursor>(other, &ban_token), None, "{of} {other}");
                    assert_eq!(read::<NameCursor>(other, &names_token), None, "{of} {other}");
                }
            }
            // A part of a token is none, or another position of the same namespace.
            for end in 1..token.len() {
                let part: Option<PartitionCursor> = read(of, &token[..end]);
                let is_own = part.is_none_or(|part| part.name.prefix().is_empty());
                assert!(is_own, "{of} {end}");
            }
        }
        for forged in ["7\x1f\x02", "7\x1f\x02\x40\x0012345678", "x\x1f\x02\x00\x0012345678"] {
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(read::<NameCursor>("", forged.as_bytes()), None);
        }
        // A namespace in the name of a forged token.
        let forged = URL_SAFE_NO_PAD.encode(b"7\x1facme\x1e5");
        assert_eq!(read::<PartitionCursor>("", forged.as_bytes()), None);
        let forged = URL_SAFE_NO_PAD.encode(b"a\x1e7\x1facme\x1e5");
        assert_eq!(read::<PartitionCursor>("a", forged.as_bytes()), None);
        assert_eq!(read::<BanCursor>("a", forged.as_bytes()), None);
    }

    #[test]
    fn cursors_of_leases_and_tasks_have_bounded_numbers_and_both_names() {
        let lease = LeaseCursor {
            slot_end: Timestamp(9),
            member: b"camera-1\x1fsnapshot 7".to_vec(),
            lease: Lease { token: NUMBER_MAX, grant: Timestamp(0), expire: Timestamp(8) },
            attempt: u32::MAX,
        };
        let task = TaskCursor { due: 0, member: b"camera-1\x1f7".to_vec(), at: Timestamp(5) };
        for of in ["", "acme"] {
            let tokens =
                (encode(&namespace(of), Some(&lease)), encode(&namespace(of), Some(&task)));
            assert_eq!(read(of, &tokens.0).as_ref(), Some(&lease));
            assert_eq!(read(of, &tokens.1).as_ref(), Some(&task));
            assert_eq!(read::<TaskCursor>(of, &tokens.0), None);
            assert_eq!(read::<LeaseCursor>(of, &tokens.1), None);
        }
        for forged in [
            "9",
            "9\x1f",
            "9\x1f1\x1f2\x1f3\x1f4",
            "9\x1f1\x1f2\x1f3\x1f4\x1fdevice",
            "9\x1f1\x1f2\x1f3\x1f4\x1fdevice\x1ftask\x1f",
            "9\x1f1\x1f2\x1f3\x1f4294967296\x1fdevice\x1ftask",
            "9\x1f4503599627370496\x1f2\x1f3\x1f4\x1fdevice\x1ftask",
            "9\x1f1\x1f-2\x1f3\x1f4\x1fdevice\x1ftask",
            "9\x1f1\x1f2\x1f\x1f4\x1fdevice\x1ftask",
        ] {
            let token = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(read::<LeaseCursor>("", token.as_bytes()), None, "{forged:?}");
            assert_eq!(read::<TaskCursor>("", token.as_bytes()), None, "{forged:?}");
        }
    }
}
