//! Plays every file of the corpus, and a bounded number of mutations from a fixed seed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use flate2::bufread::GzDecoder;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::TARGETS;

/// Number of mutations of each target.
const MUTATIONS: usize = 3_000;
/// Maximum size of an input, in bytes.
const BYTES_MAX: usize = 4_096;

/// Returns the inputs of each target, in the order of the archive, which is that of their names.
fn corpus() -> BTreeMap<String, Vec<Vec<u8>>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus.tar.gz");
    let archive = BufReader::new(File::open(file).unwrap());
    let mut inputs = BTreeMap::<_, Vec<_>>::new();
    for entry in tar::Archive::new(GzDecoder::new(archive)).entries().unwrap() {
        let mut entry = entry.unwrap();
        let target = entry.path().unwrap().parent().unwrap().display().to_string();
        let mut input = Vec::new();
        entry.read_to_end(&mut input).unwrap();
        inputs.entry(target).or_default().push(input);
    }
    inputs
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
                // Replaces the rest by the end of another input.
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
    let mut corpus = corpus();
    for (name, target) in TARGETS {
        let inputs = corpus.remove(name).unwrap_or_else(|| panic!("{name} has no corpus"));
        inputs.iter().for_each(|input| target(input));
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..MUTATIONS {
            target(&mutate(&mut random, &inputs));
        }
    }
    assert!(corpus.is_empty(), "inputs of no target: {:?}", corpus.keys());
}
