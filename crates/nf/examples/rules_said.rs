//! Prints how many rules of files the inspector honours, and why it leaves out the others: `cargo run
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
    let (mut plain, mut plain_taken) = (0, 0);
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
                if is_plain && std::env::var_os("SHOW").is_some() {
                    println!("{}: {}", one.keyword, one.error.problem);
                }
            }
        }
    }
    let all = taken + left.values().sum::<usize>();
    println!(
        "{taken} of {all} rules; of those that speak of payloads alone {plain_taken} of {plain}"
    );
    let mut left: Vec<_> = left.into_iter().collect();
    left.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (keyword, count) in left.iter().take(40) {
        println!("{count:6} {keyword}");
    }
    Ok(())
}

/// Whether a rule is for transport protocols, and says nothing of buffers, bits or thresholds.
fn is_plain(line: &str) -> bool {
    const OTHERS: [&str; 29] = [
        "http",
        "tls",
        "dns",
        "file",
        "ssh",
        "ja3",
        "smb",
        "krb5",
        "threshold",
        "detection_filter",
        "flowbits",
        "xbits",
        "flowint",
        "urilen",
        "byte_extract",
        "base64",
        "bsize",
        "ssl",
        "app-layer",
        "pkt_data",
        "quic",
        "uricontent",
        "stream-event",
        "itype",
        "icode",
        "icmp",
        "flags",
        "asn1",
        "ttl",
    ];
    let mut words = line.split_whitespace();
    let protocol = words.nth(1).unwrap_or_default();
    let options = line.split_once('(').map_or("", |(_, options)| options);
    let mut names = options.split(';').map(|option| option.trim());
    ["tcp", "udp", "ip", "icmp"].contains(&protocol)
        && !names.any(|name| OTHERS.iter().any(|other| name.starts_with(other)))
}
