use std::{cmp::Reverse, collections::BTreeSet};

/// Packs items into bins by best fit decreasing, and returns the items of each bin: the longest item first, each into the
/// fullest bin with room for it, else into a new one. That takes at most 11/9 of the minimum number of bins plus four
/// (Johnson, Demers, Ullman, Garey and Graham, 1974). Items are ascending in a bin, and bins by their first items.
///
/// # Panics
/// If an item is longer than `capacity`.
pub(super) fn best_fit(lengths: &[usize], capacity: usize) -> Vec<Vec<usize>> {
    let mut items: Vec<usize> = (0..lengths.len()).collect();
    items.sort_by_key(|&item| Reverse(lengths[item]));
    let mut bins: Vec<Vec<usize>> = Vec::new();
    // Pairs of the room left in a bin and the bin.
    let mut rooms = BTreeSet::new();
    for item in items {
        let length = lengths[item];
        assert!(length <= capacity, "an item of {length} in bins of {capacity}");
        let fullest = rooms.range((length, 0)..).next().copied();
        let (room, bin) = fullest.unwrap_or((capacity, bins.len()));
        rooms.remove(&(room, bin));
        rooms.insert((room - length, bin));
        match bins.get_mut(bin) {
            Some(items) => items.push(item),
            None => bins.push(vec![item]),
        }
    }
    bins.iter_mut().for_each(|bin| bin.sort_unstable());
    bins.sort_unstable();
    bins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_item_goes_into_the_fullest_bin_with_room() {
        let check = |lengths: &[usize], expect: &[&[usize]]| assert_eq!(best_fit(lengths, 10), expect);
        check(&[], &[]);
        check(&[10, 10], &[&[0], &[1]]);
        check(&[2, 5, 7, 3, 3], &[&[0, 1, 4], &[2, 3]]);
        // Both have room for the last item; the second is the fuller one.
        check(&[6, 7, 3], &[&[0], &[1, 2]]);
        // Of equal items, the earlier one is put away first.
        check(&[5, 5, 5], &[&[0, 1], &[2]]);
        // If no two items share a bin, the order does not change.
        check(&[6, 8, 7], &[&[0], &[1], &[2]]);
    }

    #[test]
    #[should_panic(expected = "an item of 11 in bins of 10")]
    fn an_item_that_fits_nowhere_is_a_mistake() {
        best_fit(&[11], 10);
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_bin_and_no_two_bins_could_be_one(
            lengths in prop::collection::vec(1..=32_usize, 0..60),
        ) {
            let bins = best_fit(&lengths, 32);
            let mut items = bins.concat();
            items.sort_unstable();
            prop_assert_eq!(items, (0..lengths.len()).collect::<Vec<_>>());
            let mut filled: Vec<usize> =
                bins.iter().map(|bin| bin.iter().map(|&item| lengths[item]).sum()).collect();
            prop_assert!(filled.iter().all(|&filled| filled <= 32));
            filled.sort_unstable();
            prop_assert!(filled.len() < 2 || filled[0] + filled[1] > 32);
        }
    }
}
