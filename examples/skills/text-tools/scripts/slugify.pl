#!/usr/bin/env perl
# Turn a title into a slug for a URL or a file name.
use strict;
use warnings;
use utf8;

die "usage: slugify.pl TEXT [SEPARATOR]\n" unless @ARGV;
my ($text, $separator) = @ARGV;
$separator //= '-';
utf8::decode($text);

# Western letters lose their accents; whatever is then neither letter nor digit separates words.
my $plain = lc $text;
$plain =~ tr/àáâãäåçèéêëìíîïñòóôõöøùúûüýÿ/aaaaaaceeeeiiiinoooooouuuuyy/;
$plain =~ s/ß/ss/g;
$plain =~ s/æ/ae/g;
print join($separator, grep { length } split /[^a-z0-9]+/, $plain), "\n";
