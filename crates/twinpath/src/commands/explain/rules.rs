//! What of a chain is cached as rules, and why.

use crate::error::CommandError;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_core::guarantee::reply_order;
use twinpath_core::{Direction, Guarantees};
use twinpath_nf::duration::Human;
use twinpath_node::position::Position;
use twinpath_node::wiring;
use twinpath_rulecache::{Obstacle, RuleTable};

/// What is cached as rules, of a chain with such functions.
#[derive(Serialize)]
pub struct RuleFacts {
    /// The networks whose packets pass the chain in order; empty if all do.
    inside: Vec<String>,
    /// The ports whose packets do, in place of that; empty if sources tell.
    inside_ports: Vec<String>,
    elements: Elements,
    cache: CacheFacts,
    no_rule: Vec<NoRule>,
    order: Vec<String>,
}

/// The elements in the order that packets pass them, each with its functions in that order.
#[derive(Serialize)]
struct Elements {
    original: Vec<Element>,
    /// Absent if all packets pass in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Vec<Element>>,
}

/// Functions in a row that make rules together, or that share flow state.
#[derive(Clone, Serialize)]
struct Element {
    makes_rules: bool,
    /// Where they share flow state, in the order for what a connection's opener sends, from either side.
    functions: Vec<String>,
    /// The order for what the other end sends, where they share flow state and it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<String>>,
}

/// How many rules there may be, and how they come and go.
#[derive(Serialize)]
struct CacheFacts {
    is_used: bool,
    tables: usize,
    exact: usize,
    masked: usize,
    masks: usize,
    bytes_per_table: usize,
    bytes: usize,
    held: usize,
    window: String,
    threshold: u32,
    idle_windows: u8,
}

/// Packets that make no rule.
#[derive(Serialize)]
struct NoRule {
    name: &'static str,
    meaning: &'static str,
}

/// What holds whatever the cache does.
const ORDER: [&str; 3] = [
    "packets of a flow and a direction leave in the order in which they came, whether they meet a rule or the workers",
    "a rule becomes active behind all packets of its flows that are on the slow path; packets that come meanwhile wait for it",
    "cause before effect: an entry (a list, a session, a route) changes only when the rules that came from it are gone",
];

impl RuleFacts {
    /// `None` for a chain without such functions.
    pub fn of(service: &Service) -> Result<Option<Self>, CommandError> {
        if !service.chain.iter().any(Instance::makes_rules) {
            return Ok(None);
        }
        let meaning = |obstacle: Obstacle| NoRule {
            name: obstacle.name(),
            meaning: obstacle.meaning(),
        };
        Ok(Some(Self {
            inside: service.inside.iter().map(ToString::to_string).collect(),
            inside_ports: service
                .inside_ports
                .iter()
                .filter_map(|port| service.ports.get(usize::from(*port)).cloned())
                .collect(),
            elements: Elements::of(service),
            cache: CacheFacts::of(service),
            no_rule: Obstacle::ALL.map(meaning).into(),
            order: ORDER.map(str::to_owned).into(),
        }))
    }
}

impl Elements {
    fn of(service: &Service) -> Self {
        let elements: Vec<&[Instance]> = wiring::elements(service).collect();
        let walk = |direction| {
            let order = wiring::element_order(service);
            let first = Some(order.first(direction));
            std::iter::successors(first, move |position| order.next(*position))
        };
        let element = |position: Position| {
            let instances = elements.get(usize::from(position.element))?;
            Some(Element::of(instances, position.direction))
        };
        let has_sides = !(service.inside.is_empty() && service.inside_ports.is_empty());
        Self {
            original: walk(Direction::Original).filter_map(element).collect(),
            reply: has_sides.then(|| walk(Direction::Reply).filter_map(element).collect()),
        }
    }
}

impl Element {
    fn of(instances: &[Instance], direction: Direction) -> Self {
        let (last, others): (Vec<&Instance>, Vec<&Instance>) =
            instances.iter().partition(|one| one.decides_last());
        let answered = answered_order(&others);
        if !instances.iter().all(Instance::makes_rules) {
            let (functions, answers) = (names(&others, &last), names(&answered, &last));
            return Self {
                makes_rules: false,
                answers: (answers != functions).then_some(answers),
                functions,
            };
        }
        let first = match direction {
            Direction::Original => others,
            Direction::Reply => answered,
        };
        Self {
            makes_rules: true,
            functions: names(&first, &last),
            answers: None,
        }
    }
}

fn names(first: &[&Instance], last: &[&Instance]) -> Vec<String> {
    let all = first.iter().chain(last);
    all.map(|one| one.name.to_string()).collect()
}

/// Functions of an element in the order in which answers pass them: the reverse, but for those that
/// need what others give.
fn answered_order<'a>(functions: &[&'a Instance]) -> Vec<&'a Instance> {
    let guarantees: Vec<Guarantees> = functions
        .iter()
        .map(|one| one.config.guarantees())
        .collect();
    let order = reply_order(&guarantees).into_iter();
    order
        .filter_map(|place| functions.get(place).copied())
        .collect()
}

impl CacheFacts {
    fn of(service: &Service) -> Self {
        let cache = &service.rule_cache;
        let makes_rules = |element: &&[Instance]| element[0].makes_rules();
        let tables = wiring::elements(service).filter(makes_rules).count();
        // Its memory is taken only as it is touched.
        let bytes_per_table = RuleTable::new(wiring::rule_table(service)).memory_bytes();
        Self {
            is_used: cache.enabled && service.run.paths == Paths::Both,
            tables,
            exact: cache.exact,
            masked: cache.masked,
            masks: cache.masks,
            bytes_per_table,
            bytes: tables * bytes_per_table,
            held: cache.held,
            window: Human(cache.window.duration()).to_string(),
            threshold: cache.threshold,
            idle_windows: cache.idle_windows,
        }
    }
}

impl Display for RuleFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Elements: [makes one rule] (shares flow state)")?;
        let inside = self.inside.join(", ");
        match &self.elements.reply {
            None => writeln!(f, "  all packets  {}", line(&self.elements.original))?,
            Some(reply) => {
                writeln!(f, "  from inside  {}", line(&self.elements.original))?;
                writeln!(f, "  all others   {}", line(reply))?;
                match (self.inside_ports.as_slice(), inside.as_str()) {
                    ([], _) => writeln!(f, "  inside: {inside}, as their sources say")?,
                    (ports, "") => writeln!(f, "  inside: ports {}", ports.join(", "))?,
                    (ports, _) => {
                        writeln!(f, "  inside: ports {}, with {inside}", ports.join(", "))?;
                    }
                }
            }
        }
        for element in &self.elements.original {
            if let Some(answers) = &element.answers {
                writeln!(
                    f,
                    "  {element} is the order for what a connection's opener sends, from either side; its answers pass ({})",
                    answers.join(" -> ")
                )?;
            }
        }
        writeln!(f, "\n{}", self.cache)?;
        writeln!(f, "No rule is made of")?;
        for NoRule { name, meaning } in &self.no_rule {
            writeln!(f, "  {name:<22} {meaning}")?;
        }
        write!(f, "\nOrder")?;
        self.order
            .iter()
            .try_for_each(|guarantee| write!(f, "\n  {guarantee}"))
    }
}

fn line(elements: &[Element]) -> String {
    let texts: Vec<String> = elements.iter().map(ToString::to_string).collect();
    texts.join(" -> ")
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let functions = self.functions.join(" -> ");
        match self.makes_rules {
            true => write!(f, "[{functions}]"),
            false => write!(f, "({functions})"),
        }
    }
}

impl Display for CacheFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [exact, masked, masks, held] = [self.exact, self.masked, self.masks, self.held]
            .map(|number| units::count(number as u64));
        let [each, all] =
            [self.bytes_per_table, self.bytes].map(|bytes| units::bytes(bytes as u64));
        writeln!(f, "Rule cache")?;
        writeln!(
            f,
            "  tables: {}, each with {exact} rules for whole flows and {masked} others with up to {masks} masks",
            self.tables
        )?;
        writeln!(f, "  memory: {each} a table when full, {all} in all")?;
        writeln!(
            f,
            "  a rule is made of what was used more than {} times in the window of {} before, and taken out after {} windows without use",
            self.threshold, self.window, self.idle_windows
        )?;
        writeln!(
            f,
            "  up to {held} packets a table wait while rules become active"
        )
    }
}
