#!/usr/bin/env perl
use strict;
use warnings;
use File::Basename qw(dirname);

=pod

=head1 NAME

title_case - write words as an English title

=head1 SYNOPSIS

title_case.pl WORD ...

=cut

my $home = $ENV{SKILL_BASE_DIR} // dirname(__FILE__) . '/..';
open my $list, '<', "$home/assets/small_words.txt" or die "no list of small words: $!\n";
chomp(my @small = <$list>);
my %small = map { $_ => 1 } @small;

my @words = split ' ', lc join ' ', @ARGV;
for my $place (0 .. $#words) {
    my $inner = $place > 0 && $place < $#words;
    $words[$place] = ucfirst $words[$place] unless $inner && $small{ $words[$place] };
}
print "@words\n";
