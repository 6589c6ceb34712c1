//! Plays every file of the corpus, and a bounded number of mutations from a fixed seed.

use std::{fs, path::Path};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::TARGETS;

/// The mutations of each target.
const MUTATIONS: usize = 3_000;
/// The most bytes of an input.
const BYTES_MAX: usize = 4_096;

/// The inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Changes an input in one to four places.
fn mutate(random: &mut ChaCha8Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = inputs[random.random_range(0..inputs.len())].clone();
    for _ in 0..random.random_range(1..=4) {
        let place = random.random_range(0..=input.len());
        let end = random.random_range(place..=input.len().min(place + 16));
        match random.random_range(0..5) {
            0 if place < input.len() => input[place] ^= 1 << random.random_range(0..8),
            1 if place < input.len() => input[place] = random.random(),
            2 => drop(input.drain(place..end)),
            3 => input.insert(place, random.random()),
            _ => {
                // The end of another input.
                let other = &inputs[random.random_range(0..inputs.len())];
                input.truncate(place);
                input.extend_from_slice(&other[random.random_range(0..=other.len())..]);
            }
        }
    }
    input.truncate(BYTES_MAX);
    input
}

#[test]
fn no_input_of_the_corpus_panics_and_no_mutation_of_it() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        inputs.iter().for_each(|input| target(input));
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..MUTATIONS {
            target(&mutate(&mut random, &inputs));
        }
    }
}
