"""Sentences that we wrote: pairs of one meaning in other words, pairs of strangers, and what a mean of word vectors cannot tell."""

_SENTENCES = """\
The ship left the harbour at dawn and sailed north along the coast.
At daybreak the vessel departed from the port and headed northwards beside the shore.
He was very angry because nobody had told him about the meeting.
It made him furious that no one had informed him of the meeting.
The old woman lived alone in a small house near the forest.
Close to the woods, in a little cottage, an elderly lady lived by herself.
The king ordered his soldiers to attack the city before winter came.
Before the winter arrived, the king commanded his troops to assault the town.
She opened the letter slowly and read it twice before she spoke.
Slowly she opened the letter, and only after reading it two times did she say anything.
Children learn to speak by listening to the people around them.
By listening to those around them, children learn how to talk.
The doctor said that the wound was not serious and would soon heal.
According to the physician the injury was slight and would be well again soon.
It rained for three days, and the river rose until it flooded the fields.
After three days of rain the river had risen so high that the fields were under water.
The merchant sold his goods for twice the price he had paid.
The trader got double what he had paid when he sold his wares.
They walked through the night and reached the village in the morning.
Having marched all night, they arrived at the village in the morning.
The function returns the number of items in the list.
This function gives back how many items the list contains.
If the file does not exist, an error is raised.
An error is raised when the file cannot be found.
The garden was full of flowers, and birds sang in every tree.
Flowers filled the garden, and in every tree the birds were singing.
My father taught me to read when I was four years old.
When I was four, I learned to read from my father.
""".splitlines()

SAME = tuple(zip(_SENTENCES[::2], _SENTENCES[1::2], strict=True))
OTHER = tuple((SAME[number][0], SAME[(number + 5) % len(SAME)][1]) for number in range(len(SAME)))
TRAPS = (
    ("negation", "The doctor said that the wound was serious.", "The doctor said that the wound was not serious."),
    (
        "numbers",
        "The merchant sold the horse for 40 pounds in 1823.",
        "The merchant sold the horse for 900 pounds in 1871.",
    ),
    ("who does what", "The dog bit the man, then the man fled.", "The man bit the dog, then the dog fled."),
    ("names", "Mary gave the letter to John in the garden.", "Susan gave the letter to Peter in the garden."),
)
