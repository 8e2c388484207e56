//! Disjoint sets of numbers.

/// Sets of the numbers from zero up, each in its own set at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    parent: Vec<u32>,
}

impl Groups {
    pub(super) fn new(count: usize) -> Self {
        let mut groups = Self::default();
        (0..count).for_each(|_| groups.add());
        groups
    }

    /// Adds the next number.
    pub(super) fn add(&mut self) {
        self.parent.push(u32::try_from(self.parent.len()).expect("a module has fewer values than bytes"));
    }

    /// The lowest number of the set.
    pub(super) fn find(&mut self, number: u32) -> u32 {
        let mut at = number;
        while self.parent[at as usize] != at {
            let above = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = above;
            at = above;
        }
        at
    }

    /// Makes one set of two.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }
}
