use super::model::Step;
use super::search::{self, CounterExample};
use super::state::{Flow, Frame, State};
use super::story::Run;
use super::*;
use std::collections::HashSet;
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::Fsm;
use twinpath_link::Message;

/// One flow, but more frames in flight than in the small scope.
const ONE_FLOW: Scope = Scope {
    flows: 1,
    to_worker: 3,
    to_fast: 2,
    ..Scope::small()
};

fn rules(scope: Scope, without: Option<Safeguard>) -> Rules {
    Rules {
        scope,
        safeguards: Without(without),
        renames: true,
    }
}

#[test]
fn the_protocol_holds() {
    let switch = Scope {
        waiting: 0,
        ..Scope::small()
    };
    for scope in [Scope::small(), ONE_FLOW, switch] {
        let verdict = check(&scope, None);
        println!("{verdict}");
        assert!(matches!(verdict, Verdict::Holds { states, .. } if states > 10_000));
    }
}

#[test]
fn progress_is_reported_and_threads_agree() {
    let scope = Scope {
        to_worker: 1,
        ..Scope::small()
    };
    let mut last = Progress::default();
    let verdict = check_and_report(&scope, None, |progress| last = progress);
    let alone = check(
        &Scope {
            threads: 1,
            ..scope
        },
        None,
    );
    let count = |verdict: &Verdict| match verdict {
        Verdict::Holds { steps, states, .. } => (*steps, *states),
        other => panic!("{other}"),
    };
    assert!(last.is_done);
    assert_eq!(count(&verdict), (last.steps, last.states));
    assert_eq!(count(&verdict), count(&alone));
}

#[test]
fn a_search_gives_up_at_its_limit() {
    let scope = Scope {
        most_steps: 5_000,
        ..Scope::small()
    };
    let verdict = check(&scope, None);
    assert!(matches!(verdict, Verdict::Unfinished { .. }), "{verdict}");
}

/// Runs the counter-example without renaming: nothing may be broken before its last step.
fn replay(rules: Rules, found: &CounterExample) {
    let mut run = Run::new(rules);
    for (number, &step) in found.steps.iter().enumerate() {
        assert_eq!(
            Invariant::broken(&run.rules, &run.told),
            None,
            "before step {number}"
        );
        run.take(step);
    }
    assert_eq!(
        Invariant::broken(&run.rules, &run.told),
        Some(found.invariant)
    );
}

#[test]
fn without_any_safeguard_something_breaks() {
    for without in Safeguard::ALL {
        let rules = rules(Scope::small(), Some(without));
        let found = search::shortest(rules, 8).expect("it breaks within eight steps");
        replay(rules, &found);
        let fewer = found.steps.len() - 1;
        assert_eq!(search::shortest(rules, fewer), None, "not the shortest");

        let verdict = check(&Scope::small(), Some(without));
        println!("Without {}:\n{verdict}\n", without.name());
        let Verdict::Broken { steps, .. } = verdict else {
            panic!("without {} all is well", without.name());
        };
        assert_eq!(steps.len(), found.steps.len());
        assert!(ends_in_harm(rules, &found), "no wrong value in the end");
    }
}

/// Whether the counter-example, or its consequence, ends with a value that is wrong for good.
fn ends_in_harm(rules: Rules, found: &CounterExample) -> bool {
    let mut run = Run::new(rules);
    for &step in &found.steps {
        run.take(step);
    }
    for step in search::harm(&rules, run.searched()) {
        run.take(step);
    }
    run.told.is_harmed()
}

/// SwitchNIC's protocol as the paper has it: no generations, cancelled pulls are not repeated.
/// Nothing is lost or reordered; the first pull's answer is merely late.
#[test]
fn without_generations_the_paper_installs_a_stale_value() {
    let budget = Budget {
        packets: 2,
        timeouts: 1,
        ..Budget::NONE
    };
    let paper = Scope {
        flows: 1,
        rearms: 0,
        waiting: 0,
        budget,
        ..Scope::small()
    };
    let verdict = check(&paper, Some(Safeguard::Generations));
    let Verdict::Broken {
        steps, consequence, ..
    } = &verdict
    else {
        panic!("{verdict}");
    };
    let expected = [
        "packet 1 of flow A arrives, simple: slot INITIAL -> INCOMPLETE; PULL(g=1)",
        "PULL(g=1) with packet 1 of flow A reaches the workers: applied, value at the slow path [1]; STATE(g=1, [1])",
        "no answer to the pull in time: slot INCOMPLETE -> INITIAL",
        "packet 2 of flow A arrives, simple: slot INITIAL -> INCOMPLETE; PULL(g=2)",
        "STATE(g=1, [1]) with packet 1 of flow A reaches the fast path: slot INCOMPLETE -> ACTIVE with value [1]",
    ];
    let mut told = steps.clone();
    told.sort_by_key(|step| expected.iter().position(|start| step.starts_with(start)));
    assert_eq!(told.len(), expected.len(), "{verdict}");
    let matches = told
        .iter()
        .zip(expected)
        .all(|(step, start)| step.starts_with(start));
    assert!(matches, "{verdict}");
    let harm = consequence.last().expect("a wrong value follows");
    assert!(
        harm.contains("ACTIVE with value [1]") && harm.contains("true history is [1 2]"),
        "{harm}"
    );
    assert!(matches!(check(&paper, None), Verdict::Holds { .. }));
}

/// The progress check is one that can fail: without deadlines a lost frame is waited for for ever.
#[test]
fn without_deadlines_slots_wait_for_ever() {
    let scope = Scope {
        budget: Budget {
            packets: 1,
            losses: 1,
            ..Budget::NONE
        },
        ..Scope::small()
    };
    let verdict = check(&scope, None);
    assert!(
        matches!(
            verdict,
            Verdict::Broken {
                invariant: Invariant::Progress,
                ..
            }
        ),
        "{verdict}"
    );
}

/// Every state of a scope.
fn every_state(rules: &Rules) -> HashSet<State> {
    let mut seen = HashSet::from([rules.first_state()]);
    let mut open: Vec<State> = seen.iter().cloned().collect();
    let mut steps = Vec::new();
    while let Some(state) = open.pop() {
        rules.steps(&state, &mut steps);
        for step in steps.drain(..) {
            let next = rules.after(&state, step);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

/// The search meets every situation that the protocol was made for.
#[test]
fn nothing_is_out_of_reach() {
    let scope = Scope {
        flows: 1,
        ..Scope::small()
    };
    let states = every_state(&rules(scope, None));
    let meets = |what: &str, wanted: &dyn Fn(&State) -> bool| {
        assert!(states.iter().any(wanted), "never met: {what}");
    };
    let grant = |state: &State| state.records[0].map(|record| record.grant);
    let fsm = |state: &State| state.fsm_of(Flow::A);
    for wanted in [Fsm::Incomplete, Fsm::Active, Fsm::Frozen] {
        meets("slot state", &|state| fsm(state) == Some(wanted));
    }
    meets("a cancelled flow", &|state| state.slot.cancelled > 0);
    meets("a packet that waits for the answer to a pull", &|state| {
        !state.waiting.is_empty()
    });
    meets("an answer for which a packet waits", &|state| {
        let answers = |frame: &Frame| {
            frame.message == Message::State && frame.generation == state.slot.generation
        };
        !state.waiting.is_empty() && state.to_fast.iter().any(answers)
    });
    meets("a granted flow", &|state| {
        matches!(grant(state), Some(Grant::Granted(_)))
    });
    meets("a value rescued from a former life", &|state| {
        matches!(
            grant(state),
            Some(Grant::Returned {
                from_former_life: true,
                ..
            })
        )
    });
    meets(
        "an active slot that the workers forgot in a crash",
        &|state| fsm(state) == Some(Fsm::Active) && grant(state).is_none(),
    );
    meets("a duplicate write-back", &|state| {
        let write_backs = |frame: &&Frame| frame.message == Message::WriteBack;
        state.to_worker.iter().filter(write_backs).count() == 2
    });
    meets("a stale answer", &|state| {
        let is_stale = |frame: &Frame| {
            frame.message == Message::State && frame.generation != state.slot.generation
        };
        fsm(state) == Some(Fsm::Incomplete) && state.to_fast.iter().any(is_stale)
    });
    meets("a flow that a crash left open", &|state| {
        state.truth[0].is_open
    });
    meets("a packet held", &|state| {
        state.records[0].is_some_and(|record| record.held != 0)
    });
    meets("a worthless flow that must be kept", &|state| {
        state.records[0].is_some_and(|record| record.value.is_nothing() && record.held == 0)
    });
}

/// Renaming must not change which steps a state allows or where they lead.
#[test]
fn renamed_states_behave_like_their_originals() {
    let search = rules(Scope::standard(), None);
    let mut seed = 1u64;
    let mut random = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut steps = Vec::new();
    for _ in 0..2_000 {
        let mut run = Run::new(search);
        for _ in 0..20 {
            search.steps(run.searched(), &mut steps);
            let step: Step = steps[random(steps.len())];
            steps.clear();
            run.take(step);
            assert_eq!(&run.renamed(), run.searched(), "after {step:?}");
        }
    }
}
