//! Redis keys of names.

/// Appends the key `prefix:{capability:name}:part` to `buffer`.
///
/// The braces are the Redis hash tag, so all keys of one name share a hash slot. `%` and `}` in the
/// name are percent-encoded. The first `}` therefore ends the name, no two names build the same
/// key, and names spread over the slots.
pub fn push_key(buffer: &mut Vec<u8>, prefix: &str, capability: &str, name: &[u8], part: &[&[u8]]) {
    push_stem(buffer, prefix, capability, name);
    for bytes in part {
        buffer.extend_from_slice(bytes);
    }
}

/// Appends the part of a key that all keys of a name have in common: `prefix:{capability:name}:`.
pub(super) fn push_stem(buffer: &mut Vec<u8>, prefix: &str, capability: &str, name: &[u8]) {
    buffer.extend_from_slice(prefix.as_bytes());
    buffer.extend_from_slice(b":{");
    buffer.extend_from_slice(capability.as_bytes());
    buffer.push(b':');
    // Nearly all names need no encoding; a fold without an early exit compiles to SIMD.
    if name.iter().fold(true, |is_plain, byte| is_plain & (*byte != b'%') & (*byte != b'}')) {
        buffer.extend_from_slice(name);
    } else {
        for &byte in name {
            match byte {
                b'%' => buffer.extend_from_slice(b"%25"),
                b'}' => buffer.extend_from_slice(b"%7D"),
                _ => buffer.push(byte),
            }
        }
    }
    buffer.extend_from_slice(b"}:");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, part: &str) -> String {
        let mut buffer = Vec::new();
        push_key(&mut buffer, "t", "admission", name.as_bytes(), &[part.as_bytes()]);
        String::from_utf8(buffer).expect("keys of text are text")
    }

    #[test]
    fn names_that_look_like_keys_build_distinct_keys() {
        let names = ["a", "a}", "a%7D", "{", "}", "a}b", "*", "a:b", "a}:task:x", "%", "%25"];
        let of_others = names.map(|name| format!("n\x1e{name}"));
        let names: Vec<&str> =
            names.into_iter().chain(of_others.iter().map(|name| &**name)).collect();
        for (i, one) in names.iter().enumerate() {
            for other in &names[i + 1..] {
                assert_ne!(key(one, "task:x"), key(other, "task:x"));
            }
        }
        assert_ne!(key("a", "task:x}:leases"), key("a}:task:x", "leases"));
    }

    #[test]
    fn the_hash_tag_is_the_whole_name() {
        assert_eq!(key("a}b", "leases"), "t:{admission:a%7Db}:leases");
        assert_eq!(key("acme\x1ea", "leases"), "t:{admission:acme\x1ea}:leases");
    }
}
