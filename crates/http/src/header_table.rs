//! Estimates the memory of a connection's HPACK table from its header blocks.
//!
//! h2 stores each field that a client adds to the table with its own allocations, so that small
//! fields cost several times the 4,096 bytes that HPACK allows. Only the lengths of fields are read
//! here; h2 decodes them.

/// Maximum size of a table, as HPACK counts it.
const TABLE_BYTES: usize = 4096;
/// Number of bytes that HPACK adds to the length of a field.
const FIELD_BYTES: usize = 32;
/// Memory of a field in h2's table, in bytes.
const FIELD_COST: usize = 160;

/// Memory of a table that is full of the smallest fields.
pub(super) const TABLE_COST_MAX: usize = TABLE_BYTES / FIELD_BYTES * FIELD_COST;

/// Counts the fields that a client adds to the table. The bytes of a block arrive in pieces of any
/// size.
#[derive(Debug, Default)]
pub(super) struct HeaderTable {
    /// The number of fields that were added.
    fields: usize,
    /// Their size as HPACK counts it, using the encoded lengths of their strings.
    size: usize,
    next: BlockPart,
    /// Whether the current field is added to the table.
    is_added: bool,
    /// The number of strings of the current field that are still to be read.
    strings: usize,
}

/// The meaning of the next byte of a block.
#[derive(Debug, Default)]
enum BlockPart {
    /// The first byte of a field.
    #[default]
    Field,
    /// A further byte of an index or a size.
    Index,
    /// The first byte of a string's length.
    Length,
    /// A further byte of a length: the number so far and its bits.
    LengthRest(usize, u32),
    /// A byte of a string, with the number of bytes that are left.
    String(usize),
}

impl HeaderTable {
    /// Returns the memory that the table can use now, if its fields have the average size of all
    /// that were added.
    pub(super) fn cost(&self) -> usize {
        let fit = TABLE_BYTES * self.fields / self.size.max(FIELD_BYTES);
        (fit.min(self.fields) * FIELD_COST).min(TABLE_COST_MAX)
    }

    /// Counts the table as full, because a block is not read.
    pub(super) fn fill(&mut self) {
        (self.fields, self.size) = (TABLE_BYTES / FIELD_BYTES, TABLE_BYTES);
    }

    /// Starts a block.
    pub(super) fn begin(&mut self) {
        self.next = BlockPart::Field;
    }

    /// Reads bytes of a block.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if let BlockPart::String(left) = self.next {
                let read = left.min(bytes.len());
                bytes = &bytes[read..];
                self.string(left - read);
                continue;
            }
            bytes = rest;
            match self.next {
                BlockPart::Field => self.field(*first),
                BlockPart::Index if first & 0x80 != 0 => {}
                BlockPart::Index => self.go_on(),
                BlockPart::Length => match usize::from(first & 0x7f) {
                    0x7f => self.next = BlockPart::LengthRest(0x7f, 0),
                    length => self.length(length),
                },
                BlockPart::LengthRest(number, bits) => {
                    let number = number.saturating_add(usize::from(first & 0x7f) << bits.min(28));
                    match first & 0x80 {
                        0 => self.length(number),
                        _ => self.next = BlockPart::LengthRest(number, bits + 7),
                    }
                }
                BlockPart::String(_) => {}
            }
        }
    }

    /// Reads the first byte of a field: its representation, and an index in the remaining bits.
    /// Index 0 means that the name follows.
    fn field(&mut self, first: u8) {
        let (mask, has_strings) = match first {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        self.is_added = first & 0xc0 == 0x40;
        self.strings = match first & mask {
            _ if !has_strings => 0,
            0 => 2,
            _ => 1,
        };
        if first & mask == mask { self.next = BlockPart::Index } else { self.go_on() }
    }

    /// Continues with the next string, or with the next field.
    fn go_on(&mut self) {
        self.next = match self.strings {
            0 => BlockPart::Field,
            _ => BlockPart::Length,
        };
    }

    /// Starts a string of this length.
    fn length(&mut self, length: usize) {
        if self.is_added {
            self.size = self.size.saturating_add(length);
        }
        self.string(length);
    }

    /// Continues with the rest of a string; 0 at its end.
    fn string(&mut self, left: usize) {
        if left > 0 {
            self.next = BlockPart::String(left);
            return;
        }
        self.strings -= 1;
        if self.strings == 0 && self.is_added {
            self.fields += 1;
            self.size = self.size.saturating_add(FIELD_BYTES);
        }
        self.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_added_fields_count_in_pieces_of_any_size() {
        let block = [
            // An indexed field, one with a long index, and a size update.
            &[0x83, 0xff, 0x80, 0x01, 0x3f, 0xe1, 0x1f][..],
            // Added: a new name; a known name; one with a long index.
            &[0x40, 3, b'a', b'b', b'c', 2, b'x', b'y'],
            &[0x44, 1, b'/'],
            &[0x7f, 0x05, 0],
            // Not added: without indexing, never indexed.
            &[0x00, 1, b'a', 1, b'b'],
            &[0x1f, 0x09, 0x7f, 0x01],
            &[b'v'; 128],
            &[0x83],
        ]
        .concat();
        for piece in [1, 2, 3, 7, block.len()] {
            let mut table = HeaderTable::default();
            block.chunks(piece).for_each(|part| table.read(part));
            assert_eq!((table.fields, table.size), (3, 3 * FIELD_BYTES + 6), "{piece}");
            assert_eq!(table.cost(), 3 * FIELD_COST);
        }
    }

    #[test]
    fn the_cost_of_a_table_is_bounded() {
        let mut table = HeaderTable::default();
        (0..10_000).for_each(|_| table.read(&[0x40, 1, b'a', 0]));
        assert!(table.cost() <= TABLE_COST_MAX && table.cost() > TABLE_COST_MAX / 10 * 9);
        // Fields of 1,032 bytes: three fit.
        let mut table = HeaderTable::default();
        for _ in 0..10 {
            table.read(&[0x44, 0x7f, 0xe9, 0x06]);
            table.read(&[b'x'; 1000]);
            assert!(matches!(table.next, BlockPart::Field));
        }
        assert_eq!(table.cost(), 3 * FIELD_COST);
        table.fill();
        assert_eq!(table.cost(), TABLE_COST_MAX);
    }
}
