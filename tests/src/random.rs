//! [`Draw`]: draws of test data from a seeded generator. The same seed gives the same data in each run.

use rand::{
    Rng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use rand_chacha::ChaCha8Rng;

const WORDS: [&str; 5] = ["a", "b", "c", "d", "e"];

pub trait Draw: Rng {
    fn below(&mut self, end: usize) -> usize {
        self.random_range(0..end)
    }

    /// True with probability `1 / count`.
    fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of the choices, which must not be empty.
    fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        choices.choose(self).expect("choices")
    }

    fn word(&mut self) -> &'static str {
        self.pick::<&'static str>(&WORDS)
    }

    /// Zero to four words without repetition, in random order.
    fn words(&mut self) -> Vec<&'static str> {
        let mut words = WORDS.to_vec();
        words.shuffle(self);
        words.truncate(self.below(WORDS.len()));
        words
    }
}

impl Draw for ChaCha8Rng {}
