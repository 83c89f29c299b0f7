//! Actions that flows share, each once.

use crate::pipeline::{Action, Template};
use crate::tables::Interned;
use twinpath_core::memory::{bring, prefetch};

/// Actions by number. Beside them stand [templates](Template): a packet of a known flow reads one line.
pub(super) struct Actions {
    all: Interned<Action>,
    templates: Vec<Option<Template>>,
}

impl Actions {
    /// No actions, of which there are as many as directions of flows at most. What hashes are keyed with follows
    /// from the seed.
    pub fn new(flows: usize, seed: u64) -> Self {
        let mut templates = Vec::new();
        // Addresses alone: memory is taken when it is used, and nothing is moved while a packet waits. Without
        // them it is.
        let _ = templates.try_reserve_exact(flows.saturating_mul(2));
        Self {
            all: Interned::new(seed),
            templates,
        }
    }

    /// The number of an action, in one more use.
    pub fn take(&mut self, action: &Action) -> u32 {
        self.take_sought(action, self.all.hash(action))
    }

    /// The hash of an action that is soon [taken](Self::take_sought): where its number is is fetched.
    pub fn seek(&self, action: &Action) -> u64 {
        let hash = self.all.hash(action);
        self.all.prefetch_number(hash);
        hash
    }

    /// Fetches the action itself and its template, of which the number has been fetched by now.
    pub fn seek_on(&self, hash: u64) {
        let number = self.all.prefetch_value(hash);
        let template = number.and_then(|number| self.templates.get(number as usize));
        template.inspect(|template| prefetch(*template));
    }

    /// As [`Self::take`], of an action that was sought.
    pub fn take_sought(&mut self, action: &Action, hash: u64) -> u32 {
        let (number, is_new) = self.all.take_hashed(action, hash);
        if is_new {
            let template = Template::of(action);
            match self.templates.get_mut(number as usize) {
                Some(place) => *place = template,
                None => self.templates.push(template),
            }
        }
        number
    }

    /// One use less.
    pub fn give(&mut self, number: u32) {
        self.all.give(number);
    }

    /// The action under a number in use.
    pub fn get(&self, number: u32) -> Option<&Action> {
        self.all.get(number)
    }

    /// Its template, if it has one.
    #[inline]
    pub fn template(&self, number: u32) -> Option<&Template> {
        self.templates.get(number as usize)?.as_ref()
    }

    /// VNIs with which packets of the flow may come.
    #[inline]
    pub fn accepts(&self, number: u32) -> Option<[Option<u32>; 2]> {
        match self.template(number) {
            Some(template) => Some(template.accepts),
            None => Some(self.get(number)?.accepts),
        }
    }

    /// Brings the template under a number.
    #[inline]
    pub fn fetch(&self, number: u32) {
        if let Some(template) = self.templates.get(number as usize) {
            bring(template);
        }
    }

    /// Memory taken, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.all.memory_bytes() + self.templates.len() * size_of::<Option<Template>>()
    }
}
