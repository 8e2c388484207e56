use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// Random permutations that do not change between versions of libraries: ChaCha8 (the cipher of RFC 8439 with 8 rounds)
/// and a Fisher-Yates shuffle, so that a run that is resumed by a later build sees the same batches.
pub(super) struct Shuffle(ChaCha8Rng);

impl Shuffle {
    /// The order of the rows in an epoch.
    pub(super) fn epoch(seed: u64, epoch: u64) -> Self {
        Self::stream(seed, epoch)
    }

    /// The selection of held-out samples.
    pub(super) fn held_out(seed: u64) -> Self {
        Self::stream(seed, u64::MAX)
    }

    fn stream(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Self(random)
    }

    /// A uniformly random permutation of the numbers below `n` (Fisher and Yates).
    pub(super) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }

    /// A uniformly random number below `limit`: numbers past the last multiple of `limit` are rejected.
    fn below(&mut self, limit: u64) -> u64 {
        let complete = u64::MAX - u64::MAX % limit;
        loop {
            let drawn = self.0.next_u64();
            if drawn < complete {
                return drawn % limit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint's position in the data depends on this order.
    #[test]
    fn the_order_is_pinned() {
        assert_eq!(Shuffle::epoch(0, 0).permutation(8), [2, 1, 3, 7, 0, 4, 5, 6]);
        assert_eq!(Shuffle::epoch(0, 1).permutation(8), [6, 1, 0, 5, 7, 4, 2, 3]);
        assert_eq!(Shuffle::epoch(1, 0).permutation(8), [1, 3, 2, 6, 4, 0, 5, 7]);
        assert_eq!(Shuffle::held_out(0).permutation(8), [5, 1, 7, 6, 3, 0, 2, 4]);
    }

    #[test]
    fn every_permutation_of_three_is_about_equally_frequent() {
        let mut counts = std::collections::BTreeMap::new();
        for epoch in 0..6_000 {
            *counts.entry(Shuffle::epoch(3, epoch).permutation(3)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
