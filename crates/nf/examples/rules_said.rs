//! Prints how many rules of files the inspector honours, and why it leaves out the others, each that
//! looks at payloads alone with its file: `cargo run
//! -p twinpath-nf --example rules_said FILE...`

use std::collections::BTreeMap;
use twinpath_nf::inspector::{Rules, Variables};

/// What rule files take for granted.
const VARIABLES: [&str; 24] = [
    "HOME_NET",
    "EXTERNAL_NET",
    "HTTP_SERVERS",
    "SMTP_SERVERS",
    "SQL_SERVERS",
    "DNS_SERVERS",
    "TELNET_SERVERS",
    "AIM_SERVERS",
    "DC_SERVERS",
    "DNP3_SERVER",
    "DNP3_CLIENT",
    "MODBUS_CLIENT",
    "MODBUS_SERVER",
    "ENIP_CLIENT",
    "ENIP_SERVER",
    "HTTP_PORTS",
    "SHELLCODE_PORTS",
    "ORACLE_PORTS",
    "SSH_PORTS",
    "DNP3_PORTS",
    "MODBUS_PORTS",
    "FILE_DATA_PORTS",
    "FTP_PORTS",
    "VXLAN_PORTS",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let any = |name: &str| (name.to_owned(), "any".to_owned());
    let variables: Variables = VARIABLES.into_iter().map(any).collect();
    let (mut taken, mut left) = (0, BTreeMap::<String, usize>::new());
    let (mut plain, mut plain_taken, mut plain_left) = (0, 0, BTreeMap::new());
    for file in std::env::args().skip(1) {
        let text = std::fs::read(&file)?;
        let text = String::from_utf8_lossy(&text);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Ok(rules) = Rules::parse_with(line, &file, &variables) else {
                continue;
            };
            let is_plain = is_plain(line) && rules.len() + rules.left_out().len() > 0;
            plain += usize::from(is_plain);
            plain_taken += usize::from(is_plain && !rules.is_empty());
            taken += rules.len();
            for one in rules.left_out() {
                *left.entry(one.keyword.clone()).or_default() += 1;
                if is_plain {
                    *plain_left.entry(one.keyword.clone()).or_default() += 1;
                    println!("{file}: {}", one.error.problem);
                }
            }
        }
    }
    let all = taken + left.values().sum::<usize>();
    println!(
        "{taken} of {all} rules; of those that speak of payloads alone {plain_taken} of {plain}"
    );
    println!("left out of those:");
    show(plain_left);
    println!("left out of all:");
    show(left);
    Ok(())
}

fn show(left: BTreeMap<String, usize>) {
    let mut left: Vec<_> = left.into_iter().collect();
    left.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (keyword, count) in left.iter().take(40) {
        println!("{count:6} {keyword}");
    }
}

/// Whether a rule is for transport protocols, and looks for something in payloads and at nothing else.
fn is_plain(line: &str) -> bool {
    const PROTOCOLS: [&str; 6] = ["tcp", "tcp-pkt", "tcp-stream", "udp", "icmp", "ip"];
    const SOUGHT: [&str; 2] = ["content", "pcre"];
    const PAYLOADS: [&str; 17] = [
        "nocase",
        "offset",
        "depth",
        "distance",
        "within",
        "startswith",
        "endswith",
        "rawbytes",
        "fast_pattern",
        "byte_test",
        "byte_jump",
        "byte_extract",
        "byte_math",
        "isdataat",
        "dsize",
        "flow",
        "replace",
    ];
    const REMARKS: [&str; 9] = [
        "msg",
        "sid",
        "rev",
        "gid",
        "classtype",
        "reference",
        "metadata",
        "priority",
        "target",
    ];
    let protocol = line.split_whitespace().nth(1).unwrap_or_default();
    let options = line.split_once('(').map_or("", |(_, options)| options);
    let names = keywords(options);
    let is_of = |all: &[&str], name: &String| all.contains(&&**name);
    PROTOCOLS.contains(&protocol)
        && names.iter().any(|name| is_of(&SOUGHT, name))
        && names
            .iter()
            .all(|name| is_of(&SOUGHT, name) || is_of(&PAYLOADS, name) || is_of(&REMARKS, name))
}

/// The keywords of a rule's options; `;` in quotes or behind `\` ends none.
fn keywords(options: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let (mut in_quotes, mut is_escaped) = (false, false);
    for letter in options.trim_end().trim_end_matches(')').chars() {
        match letter {
            _ if is_escaped => {}
            '"' => in_quotes = !in_quotes,
            ';' if !in_quotes => all.push(String::new()),
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
        if let Some(last) = all.last_mut().filter(|_| letter != ';') {
            last.push(letter);
        }
    }
    let name = |option: String| {
        let name = option.split(':').next().unwrap_or_default();
        name.trim().to_ascii_lowercase()
    };
    all.into_iter()
        .map(name)
        .filter(|name| !name.is_empty())
        .collect()
}
