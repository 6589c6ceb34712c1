//! The waiting jobs of a pipeline, in one line per namespace. Batches serve the lines round robin,
//! so that a flood in one namespace does not delay the others.
//!
//! With one namespace this is a FIFO queue. Jobs of one call stay together, and the
//! jobs of a namespace keep their order.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hasher},
};

use super::job::Job;
use tollgate_core::names::Namespace;

/// The properties of a job that the lines need.
pub(super) trait InLine {
    /// Returns a number that represents its namespace.
    fn namespace(&self) -> u64;
    /// Returns the number of its batch; 0 for the only job of a call.
    fn batch(&self) -> u64;
    /// Whether it belongs to the batch of the job before it, which has this number.
    fn follows(&self, batch: u64) -> bool {
        batch != 0 && self.batch() == batch
    }
}

/// Returns the number that represents the namespace of a partition. Two namespaces with the same
/// number share a line.
pub(super) fn line_of(partition: &[u8]) -> u64 {
    match Namespace::split(partition).0 {
        [] => 0,
        namespace => {
            let mut hasher = DefaultHasher::new();
            hasher.write(namespace);
            hasher.finish()
        }
    }
}

impl InLine for Job {
    fn namespace(&self) -> u64 {
        self.namespace
    }

    fn batch(&self) -> u64 {
        self.batch
    }
}

/// The lines, in the order in which they are served. No line is empty.
#[derive(Debug)]
pub(super) struct Lines<J> {
    lines: VecDeque<(u64, VecDeque<J>)>,
    /// The number of jobs in all lines.
    len: usize,
}

impl<J> Default for Lines<J> {
    fn default() -> Lines<J> {
        Lines { lines: VecDeque::new(), len: 0 }
    }
}

impl<J: InLine> Lines<J> {
    /// Returns the number of waiting jobs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether no job is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of jobs that precede a further job of this namespace.
    pub(super) fn ahead(&self, namespace: u64) -> usize {
        let own = self.line(namespace).map_or(0, VecDeque::len);
        let others = self.lines.iter().filter(|(of, _)| *of != namespace);
        own + others.map(|(_, line)| line.len().min(own + 1)).sum::<usize>()
    }

    /// Whether the line of a namespace has reached its share of `most` jobs, which is the same for
    /// every line. A line that used to be the only one can be longer.
    pub(super) fn is_full(&self, namespace: u64, most: usize) -> bool {
        match self.line(namespace) {
            Some(line) => line.len() >= most / self.lines.len(),
            None => self.lines.len() >= most,
        }
    }

    /// Removes the jobs of a namespace for which `keep` is false.
    pub(super) fn retain(&mut self, namespace: u64, keep: impl Fn(&J) -> bool) {
        if let Some((_, line)) = self.lines.iter_mut().find(|(of, _)| *of == namespace) {
            let before = line.len();
            line.retain(keep);
            self.len -= before - line.len();
        }
        self.lines.retain(|(_, line)| !line.is_empty());
    }

    /// Appends a job to the line of its namespace.
    pub(super) fn push_back(&mut self, job: J) {
        self.len += 1;
        let namespace = job.namespace();
        match self.lines.iter_mut().find(|(of, _)| *of == namespace) {
            Some((_, line)) => line.push_back(job),
            None => self.lines.push_back((namespace, VecDeque::from([job]))),
        }
    }

    /// Returns the next job.
    pub(super) fn front(&self) -> Option<&J> {
        self.lines.front()?.1.front()
    }

    /// Removes the next job. After the last job of a call, the next line is served.
    pub(super) fn pop_front(&mut self) -> Option<J> {
        let is_alone = self.lines.len() == 1;
        let (_, line) = self.lines.front_mut()?;
        let job = line.pop_front();
        self.len -= usize::from(job.is_some());
        let batch = job.as_ref().map_or(0, InLine::batch);
        match line.front() {
            None => drop(self.lines.pop_front()),
            Some(next) if next.follows(batch) || is_alone => {}
            Some(_) => self.lines.rotate_left(1),
        }
        job
    }

    /// Removes all jobs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = J> + use<J> {
        std::mem::take(self).lines.into_iter().flat_map(|(_, line)| line)
    }

    fn line(&self, namespace: u64) -> Option<&VecDeque<J>> {
        self.lines.iter().find(|(of, _)| *of == namespace).map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Namespace, number, and batch.
    type Test = (u64, u32, u64);

    impl InLine for Test {
        fn namespace(&self) -> u64 {
            self.0
        }

        fn batch(&self) -> u64 {
            self.2
        }
    }

    fn taken(lines: &mut Lines<Test>) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| lines.pop_front()).map(|(of, number, _)| (of, number)).collect()
    }

    #[test]
    fn lines_alternate_and_a_single_line_is_a_queue() {
        let mut lines = Lines::default();
        (0..5).for_each(|number| lines.push_back((1, number, 0)));
        assert_eq!(lines.ahead(1), 5);
        // The first job of another namespace follows one job of each line.
        assert_eq!(lines.ahead(2), 1);
        (0..2).for_each(|number| lines.push_back((2, number, 0)));
        assert_eq!((lines.len(), lines.ahead(1), lines.ahead(2), lines.ahead(3)), (7, 7, 5, 2));
        let expected = [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (1, 3), (1, 4)];
        assert_eq!(taken(&mut lines), expected);
        assert!(lines.is_empty() && lines.front().is_none());
        (0..3).for_each(|number| lines.push_back((7, number, 0)));
        assert_eq!(taken(&mut lines), [(7, 0), (7, 1), (7, 2)]);
    }

    #[test]
    fn jobs_of_a_call_stay_together() {
        let mut lines = Lines::default();
        (0..3).for_each(|number| lines.push_back((1, number, 7)));
        (3..5).for_each(|number| lines.push_back((1, number, 8)));
        lines.push_back((1, 5, 0));
        lines.push_back((2, 0, 0));
        lines.push_back((2, 1, 0));
        assert_eq!(lines.front(), Some(&(1, 0, 7)));
        let expected = [(1, 0), (1, 1), (1, 2), (2, 0), (1, 3), (1, 4), (2, 1), (1, 5)];
        assert_eq!(taken(&mut lines), expected);
    }

    #[test]
    fn a_full_line_leaves_room_for_others() {
        let mut lines = Lines::default();
        (0..10).for_each(|number| lines.push_back((1, number, 0)));
        assert!(lines.is_full(1, 10) && !lines.is_full(2, 10));
        (0..5).for_each(|number| lines.push_back((2, number, 0)));
        assert!(lines.is_full(2, 10));
        lines.retain(1, |(_, number, _)| *number < 3);
        assert_eq!(lines.len(), 8);
        assert!(!lines.is_full(1, 10));
        lines.retain(2, |_| false);
        assert_eq!(lines.drain().count(), 3);
        assert!(lines.is_empty());
    }
}
