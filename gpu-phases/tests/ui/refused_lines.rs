use gpu_phases::kernel;

macro_rules! refused {
    ($($name:ident $body:block)*) => {
        $(
            #[kernel]
            fn $name(x: &[f32], n: u32, out: &mut [f32]) {
                each(out, |i, out| $body);
            }
        )*
    };
}

refused! {
    prints_by_debug { println!("{n:?}"); }
    prints_by_width { println!("{:>8}", n); }
    prints_by_radix { println!("{:x}", n); }
    prints_by_a_given_precision { println!("{:.1$}", x[i], 3); }
    prints_an_expression { println!("{n + 1}"); }
    prints_by_a_variable { println!(n); }
    prints_an_open_brace { println!("{"); }
    prints_a_closed_brace { println!("}"); }
    prints_too_few { println!("{} {}", n); }
    prints_no_line { print!("{n}"); }
    prints_to_standard_error { eprintln!("{n}"); }
    prints_a_text { println!("{}", "text"); }
    prints_too_many { println!("{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}{n}"); }
}
