//! Numbers that are the same in each run, and words drawn by them.

/// The words.
pub const WORDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A generator of numbers that are the same in each run.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of the words.
    pub fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }

    /// Some of the words, each once.
    pub fn words(&mut self) -> Vec<&'static str> {
        let mut words = WORDS.to_vec();
        for at in (1..words.len()).rev() {
            words.swap(at, self.below(at + 1));
        }
        words.truncate(self.below(5));
        words
    }
}
