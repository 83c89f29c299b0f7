//! Who needs whom among siblings, and circles of that.

use super::source::Segments;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Paths by which a sibling, or what is inside it, needs another: by the two.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// What the files of a crate use, by the module in which user and used are apart.
#[derive(Default)]
pub struct Uses(BTreeMap<Segments, Edges>);

impl Uses {
    /// A module uses what is in another's file, by this path. It counts where neither is inside the
    /// other.
    pub fn add(&mut self, user: &[String], used: &[String], path: &[String]) {
        let common = user.iter().zip(used).take_while(|(a, b)| a == b).count();
        let (Some(from), Some(to)) = (user.get(common), used.get(common)) else {
            return;
        };
        let edges = self.0.entry(user[..common].to_vec()).or_default();
        let told = format!("{} uses {}", user.join("::"), path.join("::"));
        let edge = edges.entry((from.clone(), to.clone())).or_default();
        edge.insert(told);
    }
}

/// Siblings that need each other in turn.
pub struct Circle {
    parent: Segments,
    edges: Edges,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = match self.parent.is_empty() {
            true => "its root".to_owned(),
            false => self.parent.join("::"),
        };
        write!(f, "a circle in {parent}")?;
        for ((from, to), paths) in &self.edges {
            write!(f, "\n  {from} needs {to}:")?;
            for path in paths {
                write!(f, "\n    {path}")?;
            }
        }
        Ok(())
    }
}

/// All circles, each with all of its edges.
pub fn circles(uses: &Uses) -> Vec<Circle> {
    let mut found = Vec::new();
    for (parent, edges) in &uses.0 {
        let reached = reached(edges);
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        for name in edges.keys().map(|(from, _)| from) {
            let together = |a: &String, b: &String| reached[a].contains(b);
            let members: BTreeSet<&String> = reached
                .keys()
                .filter(|other| together(name, other) && together(other, name))
                .collect();
            if members.contains(name) && !seen.contains(name) {
                seen.extend(&members);
                let inside = edges.iter();
                let inside =
                    inside.filter(|((a, b), _)| members.contains(a) && members.contains(b));
                found.push(Circle {
                    parent: parent.clone(),
                    edges: inside
                        .map(|(edge, paths)| (edge.clone(), paths.clone()))
                        .collect(),
                });
            }
        }
    }
    found
}

/// Whom each needs, be it by way of others.
fn reached(edges: &Edges) -> BTreeMap<String, BTreeSet<String>> {
    let mut reached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        reached.entry(from.clone()).or_default().insert(to.clone());
        reached.entry(to.clone()).or_default();
    }
    loop {
        let mut more = Vec::new();
        for (name, known) in &reached {
            let next = known.iter().flat_map(|other| &reached[other]);
            more.extend(
                next.filter(|next| !known.contains(*next))
                    .map(|next| (name.clone(), next.clone())),
            );
        }
        if more.is_empty() {
            return reached;
        }
        for (name, next) in more {
            reached.entry(name).or_default().insert(next);
        }
    }
}
