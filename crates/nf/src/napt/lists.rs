//! Sessions, by their numbers, in lists: each is in one list at most, and what is put into a list
//! becomes its last.

/// In no list.
const NOWHERE: u32 = u32::MAX;

/// A session's place: its list is a ring.
#[derive(Copy, Clone, Debug)]
struct Link {
    list: u32,
    next: u32,
    before: u32,
}

const UNLINKED: Link = Link {
    list: NOWHERE,
    next: 0,
    before: 0,
};

/// The lists, by their numbers.
#[derive(Debug)]
pub(super) struct Lists {
    links: Vec<Link>,
    /// The first of each list; 0 if it is empty. Numbers of sessions begin with 1.
    first: Box<[u32]>,
}

impl Lists {
    /// So many empty ones.
    pub fn new(lists: usize) -> Self {
        Self {
            links: vec![UNLINKED],
            first: vec![0; lists].into_boxed_slice(),
        }
    }

    /// What the places of so many sessions take.
    pub const fn bytes(sessions: usize) -> u64 {
        (sessions * size_of::<Link>()) as u64
    }

    /// The first of a list.
    pub fn first(&self, list: usize) -> Option<u32> {
        self.first.get(list).copied().filter(|&first| first != 0)
    }

    /// Whether a session is in a list.
    pub fn has(&self, list: usize, number: u32) -> bool {
        let link = self.links.get(number as usize);
        link.is_some_and(|link| link.list as usize == list)
    }

    /// The first of a list becomes its last.
    pub fn rotate(&mut self, list: usize) {
        if let Some(first) = self.first(list) {
            self.first[list] = self.links[first as usize].next;
        }
    }

    /// All of a list, in order.
    pub fn all(&self, list: usize) -> impl Iterator<Item = u32> {
        let first = self.first(list);
        std::iter::successors(first, move |&number| {
            let next = self.links[number as usize].next;
            (Some(next) != first).then_some(next)
        })
    }

    /// Takes a session out of its list.
    pub fn remove(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number as usize) else {
            return;
        };
        let Link { list, next, before } = std::mem::replace(link, UNLINKED);
        if list == NOWHERE {
            return;
        }
        if next == number {
            self.first[list as usize] = 0;
            return;
        }
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        if self.first[list as usize] == number {
            self.first[list as usize] = next;
        }
    }

    /// Puts a session at the end of a list, out of the one in which it is.
    pub fn put(&mut self, number: u32, list: usize) {
        if self.links.len() <= number as usize {
            self.links.resize(number as usize + 1, UNLINKED);
        }
        self.remove(number);
        let (next, before) = match self.first(list) {
            None => (number, number),
            Some(first) => (first, self.links[first as usize].before),
        };
        self.links[number as usize] = Link {
            list: list as u32,
            next,
            before,
        };
        self.links[before as usize].next = number;
        self.links[next as usize].before = number;
        if self.first[list] == 0 {
            self.first[list] = number;
        }
    }
}
