//! Page tokens: encoded cursors of listings, opaque to callers. A token contains the namespace of
//! its listing and is valid only there.
//!
//! A token is the base64url of the namespace, the listing and the cursor, encoded with postcard. It
//! is not signed, since a forged token is just another position in a listing that its caller may
//! read anyway. Servers do not store tokens, so a token never expires and works on every server of
//! the same version; other versions may reject it.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::fields::Fields;
use tollgate_core::{
    admission::{Lease, LeaseCursor, TaskCursor},
    names::{NAME_BYTES_MAX, Name, Namespace, SEPARATOR},
    rate::BanCursor,
};
use tollgate_engine::{NameCursor, PartitionCursor};

/// A cursor that a page token can carry.
pub(super) trait Cursor: Serialize + DeserializeOwned {
    /// Identifies the kind of listing in a token, so that other kinds reject it.
    const LISTING: u8;
    /// Whether a server could have issued the cursor in this namespace: names are well-formed, and
    /// numbers are within the range that scripts support.
    fn is_valid(&self, namespace: &Namespace) -> bool;
}

/// Returns the token of the page after `cursor`, which is empty if there is none.
pub(super) fn encode<C: Cursor>(namespace: &Namespace, cursor: Option<&C>) -> Bytes {
    // Serialization into memory cannot fail.
    let token = cursor
        .and_then(|cursor| postcard::to_stdvec(&(namespace.prefix(), C::LISTING, cursor)).ok());
    token.map_or_else(Bytes::new, |token| URL_SAFE_NO_PAD.encode(token).into())
}

/// Parses the field `page_token`; `None` for the first page.
pub(super) fn decode<C: Cursor>(fields: &mut Fields, token: &[u8]) -> Option<C> {
    if token.is_empty() {
        return None;
    }
    let cursor = parse(fields.namespace(), token);
    if cursor.is_none() {
        fields.violation("page_token", "must be a next_page_token of this listing");
    }
    cursor
}

/// Parses a token that is not empty.
fn parse<C: Cursor>(namespace: &Namespace, token: &[u8]) -> Option<C> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let ((prefix, listing, cursor), rest): ((&[u8], u8, C), _) =
        postcard::take_from_bytes(&bytes).ok()?;
    let is_valid = prefix == namespace.prefix()
        && listing == C::LISTING
        && rest.is_empty()
        && cursor.is_valid(namespace);
    is_valid.then_some(cursor)
}

/// The largest number in a cursor that scripts can compute with: `TIME_MAX` of
/// `lua/lib/prelude.lua`.
const NUMBER_MAX: u64 = (1 << 52) - 1;
/// The number of hash slots of a Redis Cluster, which exceeds the number of shards of the embedded
/// engine.
const PLACES: u16 = 16_384;
/// Maximum length of a partition without its namespace: that of a sequence with its calendar.
const PARTITION_BYTES_MAX: usize = NAME_BYTES_MAX + 64;

/// Whether a member consists of a device and a task with one separator between them.
fn is_member(member: &[u8]) -> bool {
    member.iter().filter(|byte| **byte == SEPARATOR).count() == 1
}

impl Cursor for PartitionCursor {
    const LISTING: u8 = 0;

    fn is_valid(&self, namespace: &Namespace) -> bool {
        self.name.prefix() == namespace.prefix()
    }
}

impl Cursor for LeaseCursor {
    const LISTING: u8 = 1;

    fn is_valid(&self, _: &Namespace) -> bool {
        let Lease { token, grant, expire } = self.lease;
        [token, grant.0, expire.0].iter().all(|number| *number <= NUMBER_MAX)
            && is_member(&self.member)
    }
}

impl Cursor for TaskCursor {
    const LISTING: u8 = 2;

    fn is_valid(&self, _: &Namespace) -> bool {
        self.at.0 <= NUMBER_MAX && is_member(&self.member)
    }
}

impl Cursor for BanCursor {
    const LISTING: u8 = 3;

    fn is_valid(&self, _: &Namespace) -> bool {
        Name::parse(Bytes::copy_from_slice(&self.key)).is_ok()
    }
}

impl Cursor for NameCursor {
    const LISTING: u8 = 4;

    fn is_valid(&self, _: &Namespace) -> bool {
        self.place < PLACES && self.after.len() <= PARTITION_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scope::Scope, *};
    use tollgate_core::time::Timestamp;

    fn namespace(text: &str) -> Namespace {
        Namespace::parse(text.as_bytes()).unwrap()
    }

    fn read<C: Cursor>(of: &str, token: &[u8]) -> Option<C> {
        let mut fields = Fields::new(Scope::new("a caller", namespace(of), None));
        let cursor = decode(&mut fields, token);
        // Every token that is not a cursor is a violation.
        assert_eq!(cursor.is_none(), fields.finish(Some(())).is_err());
        cursor
    }

    /// Returns a token with any contents.
    fn forge(contents: &impl Serialize) -> Bytes {
        URL_SAFE_NO_PAD.encode(postcard::to_stdvec(contents).unwrap()).into()
    }

    fn partition(of: &str) -> PartitionCursor {
        let name = Name::parse(Bytes::from_static(b"5")).unwrap();
        PartitionCursor { noted: 7, name: name.within(&namespace(of)) }
    }

    fn lease() -> LeaseCursor {
        LeaseCursor {
            slot_end: Timestamp(9),
            member: b"camera-1\x1fsnapshot 7".to_vec(),
            lease: Lease { token: NUMBER_MAX, grant: Timestamp(0), expire: Timestamp(8) },
            attempt: u32::MAX,
        }
    }

    fn task() -> TaskCursor {
        TaskCursor { due: 0, member: b"camera-1\x1f7".to_vec(), at: Timestamp(NUMBER_MAX) }
    }

    fn ban() -> BanCursor {
        BanCursor { until: Timestamp(7), key: b"5".to_vec() }
    }

    fn names() -> NameCursor {
        NameCursor {
            process: u64::MAX,
            place: 16_383,
            position: u64::MAX - 1,
            after: b"x\x1fday/999999".to_vec(),
        }
    }

    /// Whether each kind of listing accepts the token, in the order of `LISTING`.
    fn accepted(of: &str, token: &[u8]) -> [bool; 5] {
        [
            read::<PartitionCursor>(of, token).is_some(),
            read::<LeaseCursor>(of, token).is_some(),
            read::<TaskCursor>(of, token).is_some(),
            read::<BanCursor>(of, token).is_some(),
            read::<NameCursor>(of, token).is_some(),
        ]
    }

    #[test]
    fn a_token_is_valid_in_its_listing_and_its_namespace_only() {
        for of in ["", "a", "acme", "7"] {
            let own = namespace(of);
            let tokens = [
                encode(&own, Some(&partition(of))),
                encode(&own, Some(&lease())),
                encode(&own, Some(&task())),
                encode(&own, Some(&ban())),
                encode(&own, Some(&names())),
            ];
            assert_eq!(read(of, &tokens[0]), Some(partition(of)));
            assert_eq!(read(of, &tokens[1]), Some(lease()));
            assert_eq!(read(of, &tokens[2]), Some(task()));
            assert_eq!(read(of, &tokens[3]), Some(ban()));
            assert_eq!(read(of, &tokens[4]), Some(names()));
            for (listing, token) in tokens.iter().enumerate() {
                for other in ["", "a", "acme", "acm", "acme2", "7"] {
                    let expected = std::array::from_fn(|it| it == listing && other == of);
                    assert_eq!(accepted(other, token), expected, "{of} {listing} {other}");
                }
                for end in 1..token.len() {
                    assert_eq!(accepted(of, &token[..end]), [false; 5], "{of} {listing} {end}");
                }
                let longer = [&token[..], b"AAAA"].concat();
                assert_eq!(accepted(of, &longer), [false; 5], "{of} {listing}");
            }
        }
    }

    #[test]
    fn a_forged_token_cannot_name_a_partition_of_another_namespace() {
        for (of, prefix) in [("", &b""[..]), ("a", b"a\x1e")] {
            for name in ["acme", "a\x1e"] {
                let token = forge(&(prefix, PartitionCursor::LISTING, 7_u64, name.as_bytes()));
                assert_eq!(accepted(of, &token)[0], of.is_empty() && name == "acme");
                let token = forge(&(prefix, BanCursor::LISTING, 7_u64, name.as_bytes()));
                assert_eq!(accepted(of, &token)[3], name == "acme");
            }
            let token = encode(&namespace(of), Some(&partition("acme")));
            assert_eq!(accepted(of, &token), [false; 5]);
            for name in [&b""[..], b"a\n", b"\xff", &[b'x'; 257], b"acme\x1e5"] {
                let token = forge(&(prefix, PartitionCursor::LISTING, 7_u64, name));
                assert_eq!(accepted(of, &token), [false; 5], "{name:?}");
                let token = forge(&(prefix, BanCursor::LISTING, 7_u64, name));
                assert_eq!(accepted(of, &token), [false; 5], "{name:?}");
            }
        }
    }

    #[test]
    fn forged_numbers_and_members_are_bounded() {
        let refused = |token: Bytes| assert_eq!(accepted("", &token), [false; 5]);
        for member in ["", "device", "device\x1ftask\x1f", "d\x1ft\x1ft"] {
            let member = member.as_bytes().to_vec();
            let lease = LeaseCursor { member: member.clone(), ..lease() };
            refused(encode(&Namespace::DEFAULT, Some(&lease)));
            refused(encode(&Namespace::DEFAULT, Some(&TaskCursor { member, ..task() })));
        }
        let above = NUMBER_MAX + 1;
        let (zero, time) = (Timestamp(0), Timestamp(above));
        for lease_of in [
            Lease { token: above, grant: zero, expire: zero },
            Lease { token: 1, grant: time, expire: zero },
            Lease { token: 1, grant: zero, expire: time },
        ] {
            let lease = LeaseCursor { lease: lease_of, ..lease() };
            refused(encode(&Namespace::DEFAULT, Some(&lease)));
        }
        refused(encode(&Namespace::DEFAULT, Some(&TaskCursor { at: time, ..task() })));
        refused(encode(&Namespace::DEFAULT, Some(&NameCursor { place: PLACES, ..names() })));
        let after = vec![b'x'; PARTITION_BYTES_MAX + 1];
        refused(encode(&Namespace::DEFAULT, Some(&NameCursor { after, ..names() })));
    }

    #[test]
    fn nonsense_and_tokens_of_another_format_are_refused() {
        for text in [
            "?",
            "AA",
            "AAAA",
            // A length beyond the end of the token.
            "AAEA_____w8",
        ] {
            assert_eq!(accepted("", text.as_bytes()), [false; 5], "{text}");
        }
        for contents in ["7\x1f5", "9\x1f5\x1fcamera-1\x1f7", "7\x1f\x02\x00\x0012345678"] {
            let token = URL_SAFE_NO_PAD.encode(contents);
            assert_eq!(accepted("", token.as_bytes()), [false; 5], "{contents:?}");
            let token = URL_SAFE_NO_PAD.encode(format!("acme\x1e{contents}"));
            assert_eq!(accepted("acme", token.as_bytes()), [false; 5], "{contents:?}");
        }
    }
}
